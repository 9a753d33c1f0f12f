//! Results to stdout, files whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

/// Unfinished files, removed on Ctrl-C.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes unfinished files and ends with 130 on Ctrl-C and SIGTERM.
pub(crate) fn install_interrupt_handler() {
    // Without a handler the default action ends the program just as well, only unfinished files stay.
    let _ = ctrlc::set_handler(|| {
        if let Ok(list) = UNFINISHED.lock() {
            for path in list.iter() {
                let _ = std::fs::remove_file(path);
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
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        let cannot = || format!("cannot write {}", path.display());
        if path.is_dir() {
            anyhow::bail!("cannot write {}: it is a directory", path.display());
        }
        let temp = tempfile::Builder::new()
            .prefix(".schedlab-")
            .tempfile_in(dir)
            .with_context(cannot)?;
        if let Ok(mut list) = UNFINISHED.lock() {
            list.push(temp.path().to_path_buf());
        }
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
        set_plain_permissions(self.temp.path());
        let hidden = self.temp.path().to_path_buf();
        self.temp.persist(&self.path).with_context(|| cannot)?;
        if let Ok(mut list) = UNFINISHED.lock() {
            list.retain(|p| *p != hidden);
        }
        Ok(())
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
fn set_plain_permissions(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644));
    }
    #[cfg(not(unix))]
    let _ = path;
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
