//! Results to stdout, files whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use tempfile::{NamedTempFile, TempDir};

/// Unfinished files, removed on Ctrl-C.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes unfinished files and ends with 130 on Ctrl-C and SIGTERM.
pub(crate) fn install_interrupt_handler() {
    // Without a handler the default action ends the program just as well, only unfinished files stay.
    let _ = ctrlc::set_handler(|| {
        if let Ok(list) = UNFINISHED.lock() {
            for path in list.iter() {
                let _ = match path.is_dir() {
                    true => std::fs::remove_dir_all(path),
                    false => std::fs::remove_file(path),
                };
            }
        }
        std::process::exit(130);
    });
}

/// A result file that appears under its name only when [`ResultFile::finish`] is called.
pub(crate) struct ResultFile {
    path: PathBuf,
    writer: BufWriter<File>,
    temp: NamedTempFile,
}

impl ResultFile {
    /// Opens a file beside `path`, so that the final rename stays on one file system.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        if path.is_dir() {
            anyhow::bail!("cannot write {}: it is a directory", path.display());
        }
        let temp = tempfile::Builder::new()
            .prefix(".schedlab-")
            .tempfile_in(parent(path))
            .with_context(cannot)?;
        unfinished(temp.path());
        let file = temp.reopen().with_context(cannot)?;
        Ok(Self {
            path: path.to_path_buf(),
            writer: BufWriter::new(file),
            temp,
        })
    }

    /// Puts the file in its place.
    pub(crate) fn finish(mut self) -> Result<()> {
        let cannot = format!("cannot write {}", self.path.display());
        self.writer.flush().with_context(|| cannot.clone())?;
        set_permissions(self.temp.path(), 0o644);
        let hidden = self.temp.path().to_path_buf();
        self.temp.persist(&self.path).with_context(|| cannot)?;
        finished(&hidden);
        Ok(())
    }
}

/// A folder of results that appears under its name only when [`ResultDir::finish`] is called.
pub(crate) struct ResultDir {
    path: PathBuf,
    temp: TempDir,
}

impl ResultDir {
    /// Opens a folder beside `path`, which must not be there yet.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        if path.exists() {
            anyhow::bail!(
                "cannot write {}: it is there already; expected the name of a new folder",
                path.display()
            );
        }
        let temp = tempfile::Builder::new()
            .prefix(".schedlab-")
            .tempdir_in(parent(path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        unfinished(temp.path());
        Ok(Self {
            path: path.to_path_buf(),
            temp,
        })
    }

    /// Writes a file below the folder.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        let file = self.temp.path().join(name);
        let write = || {
            if let Some(dir) = file.parent() {
                std::fs::create_dir_all(dir)?;
            }
            std::fs::write(&file, text)
        };
        write().with_context(|| format!("cannot write {name} for {}", self.path.display()))
    }

    /// Puts the folder in its place.
    pub(crate) fn finish(self) -> Result<()> {
        let hidden = self.temp.path().to_path_buf();
        set_permissions(&hidden, 0o755);
        std::fs::rename(&hidden, &self.path)
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        // It has moved: nothing is left to remove.
        let _ = self.temp.keep();
        finished(&hidden);
        Ok(())
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

fn unfinished(path: &Path) {
    if let Ok(mut list) = UNFINISHED.lock() {
        list.push(path.to_path_buf());
    }
}

fn finished(path: &Path) {
    if let Ok(mut list) = UNFINISHED.lock() {
        list.retain(|p| p != path);
    }
}

impl Write for ResultFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.writer.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Temporary files are private; results are readable as any new file is.
fn set_permissions(path: &Path, mode: u32) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _ = (path, mode);
}

/// Writes text to stdout.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes a value as indented JSON to stdout.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    print(&text)
}
