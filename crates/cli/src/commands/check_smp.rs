//! `schedlab check` of recordings of several CPUs: placement and balancing.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use schedlab_analysis::check::record::{Kind, Record};
use schedlab_analysis::check::smp::{
    SmpCheck, SmpOptions, SmpReport, is_smp_probe, kernel_domains,
};
use schedlab_balance::Domains;

use crate::args::CheckArgs;
use crate::commands::kernel;

/// What the kernel printed when it attached its domains, and its `sched/domains` files.
const TEXTS: [&str; 2] = ["dmesg-domains.txt", "domains.txt"];
/// Longest such text, bytes: several hundred for each domain of each CPU.
const LONGEST: u64 = 64 << 20;

/// Whether a recording has the probes of placement and balancing.
pub(super) fn is_smp(file: &Path) -> Result<bool> {
    for event in schedlab_trace::open(file)? {
        let event = event?;
        if is_smp_probe(&event) {
            return Ok(true);
        }
        if Record::read(0, &event).is_none_or(|r| r.kind != Kind::Other) {
            return Ok(false);
        }
    }
    Ok(false)
}

pub(super) fn check(file: &Path, args: &CheckArgs) -> Result<SmpReport> {
    let path = topology_of(file, args)?;
    let domains = domains(&path).with_context(|| format!("{}", path.display()))?;
    let mut check = SmpCheck::new(&domains, options(file, args)?);
    let mut number = 0;
    for event in schedlab_trace::open(file)? {
        let event = event?;
        number += 1;
        check.feed(number, &event).map_err(|what| {
            let (s, us) = (event.ts / 1_000_000_000, event.ts / 1_000 % 1_000_000);
            anyhow!("{}: event {number} at {s}.{us:06}: {what}", file.display())
        })?;
    }
    let report = check.finish();
    if report.total() + report.undecided_total() == 0 {
        bail!(
            "{}: no decisions; expected probes such as `sel`, `selret` and `lb` (docs/formats/smp-recording.md)",
            file.display()
        );
    }
    Ok(report)
}

/// A recording is called by its machine's folder and its own, if its file has the usual name.
pub(super) fn name_of(file: &Path) -> String {
    let usual = file
        .file_name()
        .is_some_and(|n| n.to_string_lossy().starts_with("trace."));
    let folder = file.parent().filter(|_| usual);
    let Some(own) = folder.and_then(Path::file_name) else {
        return file.display().to_string();
    };
    let machine = folder.and_then(Path::parent).and_then(Path::file_name);
    let machine = machine.map_or(String::new(), |m| format!("{}/", m.to_string_lossy()));
    format!("{machine}{}", own.to_string_lossy())
}

fn topology_of(file: &Path, args: &CheckArgs) -> Result<PathBuf> {
    if let Some(path) = &args.topology {
        return Ok(path.clone());
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    let places = [folder.to_path_buf(), folder.join("..")];
    let mut candidates = places
        .iter()
        .flat_map(|p| ["topology", "topology.tar.xz"].map(|name| p.join(name)));
    candidates.find(|p| p.exists()).with_context(|| {
        format!(
            "{}: a recording of several CPUs needs the machine's topology; expected `topology` or `topology.tar.xz` in its folder or \
             one up, or --topology",
            file.display()
        )
    })
}

fn domains(path: &Path) -> Result<Domains> {
    let [printed, files] = if path.is_dir() {
        let read = |name: &str| {
            std::fs::read_to_string(path.join(name)).with_context(|| format!("cannot read {name}"))
        };
        [read(TEXTS[0])?, read(TEXTS[1])?]
    } else {
        packed(path)?
    };
    kernel_domains(&printed, &files).map_err(|what| anyhow!(what))
}

/// The two texts out of an archive, wherever in it they are.
fn packed(path: &Path) -> Result<[String; 2]> {
    let file = std::fs::File::open(path)?;
    let mut archive = tar::Archive::new(liblzma::read::XzDecoder::new(file));
    let mut found = [None, None];
    let entries = archive.entries().context("expected a .tar.xz")?;
    for entry in entries {
        let entry = entry.context("expected a .tar.xz")?;
        let name = entry
            .path()
            .ok()
            .and_then(|p| Some(p.file_name()?.to_owned()));
        let Some(at) = TEXTS
            .iter()
            .position(|t| name.as_deref() == Some(t.as_ref()))
        else {
            continue;
        };
        let mut text = String::new();
        let mut limited = entry.take(LONGEST);
        limited
            .read_to_string(&mut text)
            .with_context(|| format!("cannot read {}", TEXTS[at]))?;
        found[at] = Some(text);
    }
    match found {
        [Some(printed), Some(files)] => Ok([printed, files]),
        [None, _] => bail!("no file {} in it", TEXTS[0]),
        [_, None] => bail!("no file {} in it", TEXTS[1]),
    }
}

fn options(file: &Path, args: &CheckArgs) -> Result<SmpOptions> {
    let meta = file.with_file_name("meta.json");
    let mut options = if meta.exists() {
        let text = std::fs::read_to_string(&meta)
            .with_context(|| format!("cannot read {}", meta.display()))?;
        SmpOptions::from_meta(&text).with_context(|| format!("{}", meta.display()))?
    } else {
        SmpOptions::default()
    };
    let class = kernel::beside(file, &args.kernel)?;
    options.features = class.profile.features;
    options.hz = class.hz;
    Ok(options)
}
