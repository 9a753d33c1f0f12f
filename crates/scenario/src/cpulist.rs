//! CPU lists in the kernel's syntax: `0-3,8`, `0-15:2/4`, `all`, `N`.

/// What a CPU list should look like, for error messages.
pub(crate) const CPU_LIST_FORM: &str = "a CPU list such as \"0-3,8\" or \"all\"";

/// Why a CPU list was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CpuListError {
    /// It is no CPU list.
    Form,
    /// A CPU that the machine does not have.
    Outside(u32),
}

/// Reads a CPU list for a machine of `cpus` CPUs; the result is ascending and without doubles.
///
/// Accepts what the kernel's bitmap lists accept: `a`, `a-b`, `a-b:used/group`, `N` for the last CPU, `all`.
pub(crate) fn parse_cpu_list(text: &str, cpus: u32) -> Result<Vec<u32>, CpuListError> {
    let mut out = Vec::new();
    let mut empty = true;
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        empty = false;
        let (range, stride) = match part.split_once(':') {
            Some((range, stride)) => (range, Some(stride)),
            None => (part, None),
        };
        let (first, last) = if range == "all" {
            (0, cpus - 1)
        } else if let Some((a, b)) = range.split_once('-') {
            (number(a, cpus)?, number(b, cpus)?)
        } else {
            let one = number(range, cpus)?;
            (one, one)
        };
        if first > last {
            return Err(CpuListError::Form);
        }
        if last >= cpus {
            return Err(CpuListError::Outside(last));
        }
        let (used, group) = match stride {
            None => (1, 1),
            Some(s) => {
                let (used, group) = s.split_once('/').ok_or(CpuListError::Form)?;
                let parse = |t: &str| t.trim().parse::<u32>().map_err(|_| CpuListError::Form);
                (parse(used)?, parse(group)?)
            }
        };
        if used == 0 || used > group {
            return Err(CpuListError::Form);
        }
        out.extend((first..=last).filter(|c| (c - first) % group < used));
    }
    if empty {
        return Err(CpuListError::Form);
    }
    out.sort_unstable();
    out.dedup();
    Ok(out)
}

/// Reads a CPU list that a person typed, for a machine of `cpus` CPUs.
///
/// # Errors
/// What is wrong with it, in words.
pub fn cpu_list(text: &str, cpus: u32) -> Result<Vec<u32>, String> {
    parse_cpu_list(text, cpus).map_err(|e| match e {
        CpuListError::Form => format!("expected {CPU_LIST_FORM}"),
        CpuListError::Outside(cpu) => crate::reader::outside(cpu, cpus),
    })
}

fn number(text: &str, cpus: u32) -> Result<u32, CpuListError> {
    let text = text.trim();
    if text == "N" {
        return Ok(cpus - 1);
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(CpuListError::Form);
    }
    // Anything that does not fit is surely outside the machine.
    Ok(text.parse().unwrap_or(u32::MAX))
}

/// A CPU list as the kernel prints it.
pub fn show_cpu_list(cpus: &[u32]) -> String {
    let mut out = String::new();
    let mut i = 0;
    while i < cpus.len() {
        let mut j = i;
        while j + 1 < cpus.len() && cpus[j + 1] == cpus[j] + 1 {
            j += 1;
        }
        if !out.is_empty() {
            out.push(',');
        }
        if i == j {
            out.push_str(&cpus[i].to_string());
        } else {
            out.push_str(&format!("{}-{}", cpus[i], cpus[j]));
        }
        i = j + 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_syntax() {
        assert_eq!(parse_cpu_list("0-3,8", 16), Ok(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_cpu_list("8, 0-1,1", 16), Ok(vec![0, 1, 8]));
        assert_eq!(parse_cpu_list("0-7:2/4", 16), Ok(vec![0, 1, 4, 5]));
        assert_eq!(parse_cpu_list("14-N", 16), Ok(vec![14, 15]));
        assert_eq!(parse_cpu_list("all", 3), Ok(vec![0, 1, 2]));
    }

    #[test]
    fn outside_and_nonsense_differ() {
        assert_eq!(parse_cpu_list("0-16", 16), Err(CpuListError::Outside(16)));
        assert_eq!(
            parse_cpu_list("99999999999", 16),
            Err(CpuListError::Outside(u32::MAX))
        );
        for bad in [
            "", ",", "3-1", "a", "0-", "-1", "0-7:0/4", "0-7:5/4", "0-7:2", "1 2",
        ] {
            assert_eq!(parse_cpu_list(bad, 16), Err(CpuListError::Form), "{bad}");
        }
    }

    #[test]
    fn printed_lists_read_back() {
        for list in ["0-3,8", "5", "0,2,4-6"] {
            assert_eq!(show_cpu_list(&parse_cpu_list(list, 16).unwrap()), list);
        }
    }
}
