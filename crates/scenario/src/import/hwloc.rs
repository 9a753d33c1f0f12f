//! hwloc's XML, versions 1 and 2 (`lstopo --of xml`).

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::{Document, Node};
use schedlab_topology::{Arch, CPUS_LIMIT, NODES_LIMIT};

use super::gathered::{FoundCpu, Gathered};
use super::wrong;
use crate::error::Error;

/// Most CPUs in a set's mask, as the kernel's largest `NR_CPUS`.
const MASK_LIMIT: usize = 8_192;
/// Deepest nesting of objects; hwloc's own trees have some ten levels.
const DEPTH_LIMIT: usize = 100;
/// x86 takes the L3 for the last level.
const X86_LAST_LEVEL: u32 = 3;

pub(super) fn read(name: &str, text: &str) -> Result<Gathered, Error> {
    let options = roxmltree::ParsingOptions {
        // hwloc writes a DOCTYPE. Entities are limited by the parser.
        allow_dtd: true,
        nodes_limit: 2_000_000,
        ..roxmltree::ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).map_err(|e| {
        let at = e.pos();
        wrong(
            format!("{name}:{}:{}", at.row, at.col),
            format!("no XML: {e}"),
        )
    })?;
    let root = document.root_element();
    if root.tag_name().name() != "topology" {
        return Err(wrong(name, "expected hwloc's <topology>"));
    }
    let mut reader = Reader {
        name,
        document: &document,
        out: Gathered {
            place: name.into(),
            ..Gathered::default()
        },
        nodes: Vec::new(),
    };
    reader.architecture(root);
    for object in root.children().filter(|n| n.has_tag_name("object")) {
        reader.object(object, &Above::default(), 0)?;
    }
    reader.place_in_nodes()?;
    reader.distances(root)?;
    Ok(reader.out)
}

/// What an object lies in, by the position in the file.
#[derive(Clone, Default)]
struct Above {
    package: Option<u64>,
    core: Option<u64>,
    cluster: Option<u64>,
    caches: BTreeMap<u32, u64>,
}

struct Reader<'a, 'i> {
    name: &'a str,
    document: &'a Document<'i>,
    out: Gathered,
    /// Number and CPUs of each node, in order of the file.
    nodes: Vec<(FoundNode, BTreeSet<u32>)>,
}

#[derive(Clone, Copy)]
struct FoundNode {
    os: u32,
    gp: Option<u64>,
}

impl<'a, 'i> Reader<'a, 'i> {
    fn wrong(&self, node: Node<'a, 'i>, problem: impl Into<String>) -> Error {
        let at = self.document.text_pos_at(node.range().start);
        wrong(format!("{}:{}:{}", self.name, at.row, at.col), problem)
    }

    fn number(&self, node: Node<'a, 'i>, key: &str) -> Result<u32, Error> {
        let text = node.attribute(key).unwrap_or_default();
        text.parse()
            .map_err(|_| self.wrong(node, format!("`{key}`: expected a number, found {text:?}")))
    }

    fn architecture(&mut self, root: Node<'a, 'i>) {
        let info = |key: &str| {
            root.descendants()
                .filter(|n| n.has_tag_name("info") && n.attribute("name") == Some(key))
                .find_map(|n| n.attribute("value"))
        };
        if info("Architecture").is_some_and(|a| !a.contains("86")) {
            self.out.arch = Arch::Generic;
        }
        self.out.vendor = info("CPUVendor").map(str::to_string);
        self.out.model = info("CPUModel").map(str::to_string);
        self.out.family = info("CPUFamilyNumber").and_then(|f| f.parse().ok());
    }

    /// An object and what is in it.
    fn object(&mut self, node: Node<'a, 'i>, above: &Above, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_LIMIT {
            return Err(self.wrong(node, "objects are nested too deeply"));
        }
        let mut here = above.clone();
        let id = node.range().start as u64;
        match node.attribute("type").unwrap_or_default() {
            "Package" | "Socket" => here.package = Some(id),
            "Core" => here.core = Some(id),
            "Group" if node.attribute("subtype") == Some("Cluster") => here.cluster = Some(id),
            "L2Cache" => {
                here.caches.insert(2, id);
            }
            "L3Cache" => {
                here.caches.insert(3, id);
            }
            "L4Cache" => {
                here.caches.insert(4, id);
            }
            // Version 1; cache_type 2 is an instruction cache.
            "Cache" if node.attribute("cache_type") != Some("2") => {
                here.caches.insert(self.number(node, "depth")?, id);
            }
            "NUMANode" => self.numa_node(node)?,
            "PU" => self.cpu(node, &here)?,
            _ => {}
        }
        for child in node.children().filter(|n| n.has_tag_name("object")) {
            self.object(child, &here, depth + 1)?;
        }
        Ok(())
    }

    fn numa_node(&mut self, node: Node<'a, 'i>) -> Result<(), Error> {
        if self.nodes.len() >= NODES_LIMIT as usize {
            return Err(self.wrong(node, format!("more than {NODES_LIMIT} nodes")));
        }
        let mask = node
            .attribute("cpuset")
            .ok_or_else(|| self.wrong(node, "a NUMANode without `cpuset`"))?;
        let cpus = cpuset(mask).ok_or_else(|| {
            self.wrong(
                node,
                format!("`cpuset`: expected a mask such as 0x000000ff, found {mask:?}"),
            )
        })?;
        let found = FoundNode {
            os: self.number(node, "os_index")?,
            gp: node.attribute("gp_index").and_then(|g| g.parse().ok()),
        };
        self.nodes.push((found, cpus));
        Ok(())
    }

    fn cpu(&mut self, node: Node<'a, 'i>, above: &Above) -> Result<(), Error> {
        let number = self.number(node, "os_index")?;
        if self.out.cpus.iter().any(|c| c.number == number) {
            return Err(self.wrong(node, format!("CPU {number} is there twice")));
        }
        if self.out.cpus.len() >= CPUS_LIMIT as usize {
            return Err(self.wrong(node, format!("more than {CPUS_LIMIT} CPUs")));
        }
        let x86 = self.out.arch == Arch::X86;
        let last = if x86 { X86_LAST_LEVEL } else { u32::MAX };
        self.out.cpus.push(FoundCpu {
            number,
            // Without cores in the file every CPU is one.
            core: above.core.unwrap_or(node.range().start as u64),
            cluster: if x86 {
                above.caches.get(&2).copied()
            } else {
                above.cluster
            },
            llc: above.caches.range(2..=last).next_back().map(|(_, id)| *id),
            node: 0,
            socket: above.package.unwrap_or(0),
            capacity: 1024,
        });
        Ok(())
    }

    fn place_in_nodes(&mut self) -> Result<(), Error> {
        if self.nodes.is_empty() {
            return Ok(());
        }
        for cpu in &mut self.out.cpus {
            let mut holding = self
                .nodes
                .iter()
                .filter(|(_, set)| set.contains(&cpu.number));
            let problem = match (holding.next(), holding.next()) {
                (Some((node, _)), None) => {
                    cpu.node = node.os;
                    continue;
                }
                (None, _) => format!("CPU {} is in no NUMANode; expected it in one", cpu.number),
                (Some((a, _)), Some((b, _))) => format!(
                    "CPU {} is in NUMANode {} and in {}; expected it in one",
                    cpu.number, a.os, b.os
                ),
            };
            return Err(wrong(self.name, problem));
        }
        Ok(())
    }

    /// Latencies between nodes.
    fn distances(&mut self, root: Node<'a, 'i>) -> Result<(), Error> {
        let is_latency = |n: &Node<'a, 'i>| {
            n.has_tag_name("distances2")
                && n.attribute("type") == Some("NUMANode")
                && n.attribute("name").is_none_or(|n| n == "NUMALatency")
        };
        if let Some(matrix) = root.descendants().find(is_latency) {
            let text = |tag: &str| -> Vec<&'a str> {
                matrix
                    .children()
                    .filter(|n| n.has_tag_name(tag))
                    .filter_map(|n| n.text())
                    .flat_map(str::split_whitespace)
                    .collect()
            };
            let (indexes, values) = (text("indexes"), text("u64values"));
            let by_gp = matrix.attribute("indexing") == Some("gp");
            let mut order = Vec::new();
            for index in indexes {
                let is = |n: &FoundNode| match by_gp {
                    true => index.parse().ok() == n.gp,
                    false => index.parse() == Ok(n.os),
                };
                let node = self.nodes.iter().map(|(n, _)| *n).find(is).ok_or_else(|| {
                    self.wrong(
                        matrix,
                        format!("distances of a node {index}, which is not there"),
                    )
                })?;
                order.push(node.os);
            }
            let values = values
                .iter()
                .map(|v| v.parse().ok())
                .collect::<Option<Vec<u32>>>();
            return self.matrix(matrix, &order, values);
        }
        let old =
            |n: &Node<'a, 'i>| n.has_tag_name("distances") && n.attribute("latency_base").is_some();
        if let Some(matrix) = root.descendants().find(old) {
            let base = matrix
                .attribute("latency_base")
                .and_then(|b| b.parse::<f64>().ok());
            let order: Vec<u32> = self.nodes.iter().map(|(n, _)| n.os).collect();
            let values = matrix
                .children()
                .filter(|n| n.has_tag_name("latency"))
                .map(|n| {
                    let value = n.attribute("value")?.parse::<f64>().ok()? * base?;
                    // Distances are whole numbers again once the base is back.
                    (1.0..=255.0).contains(&value).then(|| value.round() as u32)
                })
                .collect();
            return self.matrix(matrix, &order, values);
        }
        Ok(())
    }

    fn matrix(
        &mut self,
        at: Node<'a, 'i>,
        order: &[u32],
        values: Option<Vec<u32>>,
    ) -> Result<(), Error> {
        let n = order.len();
        let values = values
            .filter(|v| v.len() == n * n && n > 0)
            .ok_or_else(|| self.wrong(at, format!("expected {} distances for {n} nodes", n * n)))?;
        for (from, row) in order.iter().zip(values.chunks(n)) {
            let row = order.iter().copied().zip(row.iter().copied()).collect();
            self.out.distances.insert(*from, row);
        }
        Ok(())
    }
}

/// Members of a mask: `0x` and up to 32 bits a word, the most significant first.
fn cpuset(text: &str) -> Option<BTreeSet<u32>> {
    let words: Vec<&str> = text.trim().split(',').collect();
    if words.len() > MASK_LIMIT / 32 || text.contains("0xf...f") {
        return None;
    }
    let mut out = BTreeSet::new();
    for (i, word) in words.iter().rev().enumerate() {
        let digits = word.trim().trim_start_matches("0x");
        let bits = match digits {
            "" => 0,
            digits => u32::from_str_radix(digits, 16).ok()?,
        };
        out.extend(
            (0..32)
                .filter(|b| bits & (1 << b) != 0)
                .map(|b| i as u32 * 32 + b),
        );
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks() {
        let members = |t: &str| cpuset(t).map(|s| s.into_iter().collect::<Vec<_>>());
        assert_eq!(members("0x00000005"), Some(vec![0, 2]));
        assert_eq!(members("0x1,,0x80000000"), Some(vec![31, 64]));
        assert_eq!(members("0x0"), Some(vec![]));
        assert_eq!(members("0xf...f"), None);
        assert_eq!(members("0xzz"), None);
    }
}
