//! Which kernel made a recording, and with which settings.

use std::path::Path;

use anyhow::{Context, Result, bail};
use schedlab_analysis::check::CheckOptions;
use schedlab_fair::Features;

use crate::args::KernelArgs;
use crate::commands::profiles::profile;

/// The settings that are written beside a recording, changed by the command line.
pub(crate) fn beside(file: &Path, args: &KernelArgs) -> Result<CheckOptions> {
    let meta = file.with_file_name("meta.json");
    let options = if meta.exists() {
        let text = std::fs::read_to_string(&meta)
            .with_context(|| format!("cannot read {}", meta.display()))?;
        CheckOptions::from_meta(&text).with_context(|| format!("{}", meta.display()))?
    } else {
        CheckOptions::default()
    };
    with_arguments(options, args)
}

/// What the command line says counts more than what is written beside or in the trace.
pub(crate) fn with_arguments(mut options: CheckOptions, args: &KernelArgs) -> Result<CheckOptions> {
    if let Some(name) = &args.profile {
        let chosen = profile(name)?;
        let base = options.profile.tunables.base_slice;
        options.profile = chosen;
        options.profile.tunables.base_slice = base;
    }
    for name in &args.features {
        let Some((feature, on)) = Features::parse(name) else {
            bail!("--feature {name}: no such switch (schedlab list features)");
        };
        options.profile = options.profile.with_feature(feature, on);
    }
    if let Some(text) = &args.base_slice {
        let Some(time) = schedlab_scenario::parse_time(text) else {
            bail!("--base-slice {text}: expected a time with a unit, such as 2800us");
        };
        options.profile.tunables.base_slice = Some(time);
    }
    if let Some(hz) = args.hz {
        if hz == 0 || hz > 10_000 {
            bail!("--hz {hz}: expected 1 to 10000 ticks a second");
        }
        options.hz = hz;
    }
    Ok(options)
}
