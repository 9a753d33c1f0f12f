//! What holds for every machine.

mod common;

use proptest::prelude::*;
use schedlab_topology::{Arch, Cpu, Domains, Machine};

/// A machine of irregular parts: nodes of caches of clusters of cores, numbered in random order.
fn machines() -> impl Strategy<Value = Machine> {
    let core = 1..=3_usize;
    let cluster = prop::collection::vec(core, 1..=3);
    let llc = prop::collection::vec(cluster, 1..=3);
    let node = prop::collection::vec(llc, 1..=3);
    let nodes = prop::collection::vec(node, 1..=5);
    (nodes, any::<u64>(), any::<bool>(), 1..=2_u32, 1..=3_usize).prop_map(
        |(nodes, seed, x86, per_socket, kinds)| {
            let mut random = seed | 1;
            let mut next = move |n: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % n
            };
            let mut cpus = Vec::new();
            let (mut core, mut cluster, mut llc) = (0, 0, 0);
            for (node, llcs) in nodes.iter().enumerate() {
                for clusters in llcs {
                    for cores in clusters {
                        for &threads in cores {
                            let capacity = [1024, 600, 300][next(kinds as u64) as usize];
                            for _ in 0..threads {
                                let node = node as u32;
                                let socket = node / per_socket;
                                cpus.push(Cpu {
                                    core,
                                    cluster,
                                    llc,
                                    node,
                                    socket,
                                    capacity,
                                });
                            }
                            core += 1;
                        }
                        cluster += 1;
                    }
                    llc += 1;
                }
            }
            for i in (1..cpus.len()).rev() {
                cpus.swap(i, next(i as u64 + 1) as usize);
            }
            let n = nodes.len();
            let mut distances = vec![vec![10; n]; n];
            for (a, b) in (0..n).flat_map(|a| (0..a).map(move |b| (a, b))) {
                let d = 20 + 5 * next(4) as u32;
                (distances[a][b], distances[b][a]) = (d, d);
            }
            let arch = if x86 { Arch::X86 } else { Arch::Generic };
            Machine::new(arch, cpus, distances).expect("a sound machine")
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn domains_nest_and_groups_divide_them(m in machines()) {
        let d = Domains::build(&m);
        common::check(&m, &d);
        prop_assert_eq!(&d, &Domains::build(&m));
        // Whoever is in the machine is reached at the top.
        let n = m.cpus.len() as u32;
        for cpu in 0..n {
            let top = d.of(cpu).last().map_or(1, |d| d.span_weight);
            prop_assert_eq!(top, n);
        }
        let _ = schedlab_topology::draw::machine(&m) + &schedlab_topology::draw::domains(&m, &d, None);
    }
}
