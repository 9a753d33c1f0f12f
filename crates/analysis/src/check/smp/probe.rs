//! The fields of a placement or balancing probe.

use schedlab_balance::IdleTest;

/// The fields of one probe event: where it was called from, and name=value pairs.
pub(super) struct Fields<'a> {
    /// Text in brackets: the function, or `caller+offset/size <- function`.
    site: &'a str,
    pairs: Vec<(&'a str, u64)>,
}

impl<'a> Fields<'a> {
    /// Splits the text behind the event's colon. `None`: no probe text.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let (site, rest) = text.trim_start().strip_prefix('(')?.split_once(')')?;
        let mut pairs = Vec::new();
        for word in rest.split_ascii_whitespace() {
            let (name, value) = word.split_once('=')?;
            pairs.push((name, super::super::record::number_of(value)?));
        }
        Some(Self { site, pairs })
    }

    pub(super) fn get(&self, name: &str) -> Option<u64> {
        let found = self.pairs.iter().find(|(n, _)| *n == name);
        found.map(|&(_, value)| value)
    }

    pub(super) fn need(&self, name: &str) -> Result<u64, String> {
        self.get(name).ok_or_else(|| format!("no field `{name}`"))
    }

    /// A field of the given width that the kernel holds signed.
    pub(super) fn signed(&self, name: &str) -> Result<i64, String> {
        Ok(self.need(name)? as i64)
    }

    pub(super) fn small(&self, name: &str) -> Result<u32, String> {
        let value = self.need(name)?;
        u32::try_from(value).map_err(|_| format!("field `{name}`: {value} is no 32-bit number"))
    }

    pub(super) fn pid(&self, name: &str) -> Result<i32, String> {
        let value = self.signed(name)?;
        i32::try_from(value).map_err(|_| format!("field `{name}`: {value} is no pid"))
    }

    /// The fields `PREFIX0`, `PREFIX1`, … in order.
    pub(super) fn each(&self, prefix: &str) -> Vec<u64> {
        (0..)
            .map_while(|i| self.get(&format!("{prefix}{i}")))
            .collect()
    }

    /// The calling function with its offset, as `select_task_rq_fair+0x7c4`.
    pub(super) fn caller(&self) -> &'a str {
        self.site.split(['/', ' ']).next().unwrap_or(self.site)
    }
}

/// Call sites of `available_idle_cpu` in Debian's 6.12.117 cloud kernel for amd64, by their return address.
///
/// In another build the offsets differ; then only the order of CPUs is compared.
const IDLE_SITES: [(&str, IdleTest); 12] = [
    ("select_task_rq_fair+0x7c4", IdleTest::AffineThis),
    ("select_task_rq_fair+0x16a0", IdleTest::AffineBoth),
    ("select_task_rq_fair+0x807", IdleTest::AffinePrev),
    ("select_task_rq_fair+0x34a", IdleTest::Target),
    ("select_task_rq_fair+0x15a5", IdleTest::Prev),
    ("select_task_rq_fair+0x12bf", IdleTest::Recent),
    ("select_task_rq_fair+0x151f", IdleTest::Sibling),
    ("select_task_rq_fair+0x68b", IdleTest::Scan),
    ("select_task_rq_fair+0xd71", IdleTest::ClusterScan),
    ("select_task_rq_fair+0xa7c", IdleTest::Capacity),
    ("select_task_rq_fair+0xc05", IdleTest::Group),
    ("select_idle_core.constprop.0+0x91", IdleTest::Core),
];

pub(super) fn idle_test(caller: &str) -> Option<IdleTest> {
    let found = IDLE_SITES.iter().find(|(site, _)| *site == caller);
    found.map(|&(_, test)| test)
}
