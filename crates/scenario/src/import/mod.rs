//! Machines as other tools describe them: the kernel's sysfs (a folder or a tar of it), `lscpu -J`, hwloc's XML.
//!
//! Each reader fills a `Gathered`, whose `machine` numbers things anew and checks them.

mod gathered;
mod hwloc;
mod lscpu;
mod sysfs;
mod tree;

use std::io::Read;
use std::path::Path;

use crate::error::Error;
use crate::machine::Machine;
use crate::scenario::stem;
use tree::Tree;

/// Most bytes of a file that is imported.
const FILE_LIMIT: u64 = 64 * 1024 * 1024;

/// A machine that was imported, and what a person should know about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Imported {
    /// The machine.
    pub machine: Machine,
    /// What had to be assumed or left out.
    pub notes: Vec<String>,
}

/// The error at a place inside what is imported.
fn wrong(place: impl Into<String>, problem: impl Into<String>) -> Error {
    Error::Import {
        place: place.into(),
        problem: problem.into(),
    }
}

/// The machine that this runs on.
///
/// # Errors
/// If sysfs lacks something, or there is none.
pub fn here() -> Result<Imported, Error> {
    // From the root, so that /proc/cpuinfo is found too.
    let tree = Tree::folder(Path::new("/"))?;
    sysfs::read(&tree)?.machine("here", "sysfs of the present machine")
}

/// A machine from a path: a folder or tar (plain, xz, gzip, zstd) with a copy of sysfs, output of `lscpu -J` or
/// `lscpu -J -e`, or hwloc's XML (`lstopo --of xml`).
///
/// # Errors
/// With the file, and the place in it, at which something is missing or contradicts.
pub fn import(path: &Path) -> Result<Imported, Error> {
    let name = path.display().to_string();
    if path.is_dir() {
        let tree = Tree::folder(path)?;
        return sysfs::read(&tree)?.machine(&stem(path), &format!("sysfs copied to {name}"));
    }
    let bytes = plain_bytes(path, &name)?;
    let (gathered, kind) = if tree::is_tar(&bytes) {
        (sysfs::read(&Tree::tar(&name, &bytes)?)?, "sysfs in")
    } else {
        let text = crate::source::text_of(&name, bytes)?;
        match text.trim_start().chars().next() {
            Some('{') => (lscpu::read(&name, &text)?, "lscpu -J in"),
            Some('<') => (hwloc::read(&name, &text)?, "hwloc in"),
            _ => {
                return Err(wrong(
                    name,
                    "is neither a tar of sysfs, nor lscpu's JSON, nor hwloc's XML",
                ));
            }
        }
    };
    gathered.machine(file_name(path), &format!("{kind} {name}"))
}

/// A file's name up to its first dot.
fn file_name(path: &Path) -> &str {
    let name = path
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or("machine");
    name.split('.').find(|p| !p.is_empty()).unwrap_or("machine")
}

/// The bytes of a file, unpacked if it is packed.
fn plain_bytes(path: &Path, name: &str) -> Result<Vec<u8>, Error> {
    let cannot = |source| Error::Read {
        path: path.to_path_buf(),
        source,
    };
    let read = |stream: &mut dyn Read| -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        stream
            .take(FILE_LIMIT + 1)
            .read_to_end(&mut bytes)
            .map_err(cannot)?;
        if bytes.len() as u64 > FILE_LIMIT {
            return Err(wrong(name, "is larger than 64 MiB; that is no machine"));
        }
        Ok(bytes)
    };
    let bytes = read(&mut std::fs::File::open(path).map_err(cannot)?)?;
    match schedlab_trace::Compression::detect(&bytes) {
        None => Ok(bytes),
        Some(c) => {
            read(&mut schedlab_trace::decoder(c, std::io::Cursor::new(bytes)).map_err(cannot)?)
        }
    }
}
