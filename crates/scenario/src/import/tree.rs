//! Files of sysfs, from a folder or from a tar.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::wrong;
use crate::error::Error;

/// Most bytes of one file of sysfs.
const ENTRY_LIMIT: u64 = 64 * 1024;
/// Most files that are kept of a tar.
const ENTRIES_LIMIT: usize = 500_000;
/// Where `cpu` and `node` may lie below what was given.
const ROOTS: [&str; 4] = ["", "devices/system/", "sys/devices/system/", "system/"];

/// Files by path below the folder that holds `cpu` and `node`.
pub(super) struct Tree {
    /// What messages call that folder.
    name: String,
    /// Path of that folder inside the source, with a slash at its end.
    root: String,
    source: Source,
}

enum Source {
    Folder(PathBuf),
    Tar(BTreeMap<String, Vec<u8>>),
}

/// Whether bytes are a tar: it says so at byte 257.
pub(super) fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(257..262) == Some(b"ustar")
}

impl Tree {
    /// A folder that holds a copy of `/sys`, `/sys/devices/system`, or a folder with it.
    pub(super) fn folder(path: &Path) -> Result<Self, Error> {
        if path.file_name().is_some_and(|n| n == "cpu") && !path.join("cpu").is_dir() {
            return Self::folder(path.parent().unwrap_or(Path::new("")));
        }
        let mut starts = vec![String::new()];
        for entry in list_folder(path) {
            starts.push(format!("{entry}/"));
        }
        let is_root = |root: &String| path.join(root).join("cpu").is_dir();
        let root = starts
            .iter()
            .flat_map(|s| ROOTS.map(|r| format!("{s}{r}")))
            .find(is_root)
            .ok_or_else(|| no_cpu_folder(&path.display().to_string()))?;
        Ok(Self {
            name: path.display().to_string(),
            root,
            source: Source::Folder(path.into()),
        })
    }

    /// The files of a tar.
    pub(super) fn tar(name: &str, bytes: &[u8]) -> Result<Self, Error> {
        let broken = |e: std::io::Error| wrong(name, format!("broken tar: {e}"));
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(bytes).entries().map_err(broken)? {
            let entry = entry.map_err(broken)?;
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let path = entry.path().map_err(broken)?.display().to_string();
            let path = path.trim_start_matches("./").trim_start_matches('/');
            let mut text = Vec::new();
            let path = path.to_string();
            entry
                .take(ENTRY_LIMIT)
                .read_to_end(&mut text)
                .map_err(broken)?;
            files.insert(path, text);
            if files.len() > ENTRIES_LIMIT {
                return Err(wrong(name, "holds too many files for a copy of sysfs"));
            }
        }
        let inside = |p: &str| {
            let at = if p.starts_with("cpu/") {
                0
            } else {
                p.find("/cpu/")? + 1
            };
            let behind = &p[at + 4..];
            (behind.starts_with("cpu") || behind == "online").then(|| p[..at].to_string())
        };
        let root = files
            .keys()
            .filter_map(|p| inside(p))
            .min_by_key(String::len)
            .ok_or_else(|| no_cpu_folder(name))?;
        Ok(Self {
            name: name.into(),
            root,
            source: Source::Tar(files),
        })
    }

    /// What messages call a file.
    pub(super) fn place(&self, path: &str) -> String {
        let inside = format!("{}{path}", self.root);
        match self.source {
            Source::Folder(_) => Path::new(&self.name).join(inside).display().to_string(),
            Source::Tar(_) => format!("{}: {inside}", self.name),
        }
    }

    /// A file, without blanks around; `None` if it is not there.
    pub(super) fn get(&self, path: &str) -> Result<Option<String>, Error> {
        self.at(&format!("{}{path}", self.root), path)
    }

    /// A file beside the tree, such as a copy of `/proc/cpuinfo`: from the folders above.
    pub(super) fn beside(&self, name: &str) -> Result<Option<String>, Error> {
        let mut above = Some(self.root.trim_end_matches('/'));
        while let Some(folder) = above {
            for path in [name.to_string(), format!("proc/{name}")] {
                let whole = if folder.is_empty() {
                    path
                } else {
                    format!("{folder}/{path}")
                };
                if let Some(text) = self.at(&whole, name)? {
                    return Ok(Some(text));
                }
            }
            above = match folder.rsplit_once('/') {
                Some((up, _)) => Some(up),
                None if folder.is_empty() => None,
                None => Some(""),
            };
        }
        Ok(None)
    }

    fn at(&self, whole: &str, shown: &str) -> Result<Option<String>, Error> {
        let bytes = match &self.source {
            Source::Tar(files) => match files.get(whole) {
                Some(bytes) => bytes.clone(),
                None => return Ok(None),
            },
            Source::Folder(folder) => {
                let path = folder.join(whole);
                let mut bytes = Vec::new();
                match std::fs::File::open(&path) {
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                    Err(source) => return Err(Error::Read { path, source }),
                    Ok(f) if f.metadata().is_ok_and(|m| m.is_dir()) => return Ok(None),
                    Ok(f) => f
                        .take(ENTRY_LIMIT)
                        .read_to_end(&mut bytes)
                        .map_err(|source| Error::Read { path, source })?,
                };
                bytes
            }
        };
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text.trim().to_string())),
            Err(_) => Err(wrong(self.place(shown), "is no text")),
        }
    }

    /// A file that must be there and say something.
    pub(super) fn need(&self, path: &str, expected: &str) -> Result<String, Error> {
        match self.get(path)? {
            Some(text) if !text.is_empty() => Ok(text),
            Some(_) => Err(wrong(
                self.place(path),
                format!("is empty; expected {expected}"),
            )),
            None => Err(wrong(
                self.place(path),
                format!("is missing; expected {expected}"),
            )),
        }
    }

    /// Names of files and folders in a folder of the tree, in order; empty if it is not there.
    pub(super) fn list(&self, folder: &str) -> Vec<String> {
        let inside = format!("{}{folder}/", self.root);
        match &self.source {
            Source::Folder(start) => list_folder(&start.join(inside)),
            Source::Tar(files) => {
                let names: BTreeSet<String> = files
                    .range(inside.clone()..)
                    .take_while(|(p, _)| p.starts_with(&inside))
                    .filter_map(|(p, _)| p[inside.len()..].split('/').next())
                    .map(str::to_string)
                    .collect();
                names.into_iter().collect()
            }
        }
    }

    /// Numbers of the entries `PREFIXn` of a folder, ascending.
    pub(super) fn numbered(&self, folder: &str, prefix: &str) -> Vec<u32> {
        let mut out: Vec<u32> = self
            .list(folder)
            .iter()
            .filter_map(|n| n.strip_prefix(prefix)?.parse().ok())
            .collect();
        out.sort_unstable();
        out
    }
}

fn no_cpu_folder(name: &str) -> Error {
    wrong(
        name,
        "has no folder `cpu`; expected a copy of /sys/devices/system/cpu (and node)",
    )
}

fn list_folder(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(path)
        .into_iter()
        .flatten()
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}
