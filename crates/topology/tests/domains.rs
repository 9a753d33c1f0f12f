//! Domains of machines whose right answer is known.

mod common;

use common::{chain, check, groups, nodes};
use schedlab_topology::{
    Arch, Cpu, Domains, Flags, LevelName, Machine, MachineError, Shape, Siblings,
};

fn built(shape: Shape) -> (Machine, Domains) {
    let m = Machine::of_shape(&shape).unwrap();
    let d = Domains::build(&m);
    check(&m, &d);
    (m, d)
}

#[test]
fn one_cpu_has_no_domain() {
    let (_, d) = built(Shape::default());
    assert!(d.chain(0).is_empty());
    let llc = d.llc(0);
    assert_eq!((llc.depth, llc.id, llc.size, llc.share_id), (None, 0, 1, 0));
}

#[test]
fn caches_of_a_socket_make_a_package_level() {
    // Four sockets of four cores, a cache each, no NUMA.
    let (_, d) = built(Shape {
        sockets: 4,
        nodes: Some(1),
        cores_per_llc: 4,
        ..Shape::default()
    });
    assert_eq!(chain(&d, 5), "MC 4-7 | PKG 0-15");
    assert_eq!(groups(&d, 5, 0), "5:5 6:6 7:7 4:4");
    assert_eq!(groups(&d, 5, 1), "4:4-7 8:8-11 12:12-15 0:0-3");
    let top = d.of(5).last().unwrap();
    assert_eq!(
        (top.level_nr, top.min_interval, top.max_interval),
        (3, 16, 32)
    );
    assert_eq!(
        (top.imbalance_pct, top.cache_nice_tries, top.imb_numa_nr),
        (117, 1, 4)
    );
    assert!(top.flags.has(Flags::PREFER_SIBLING) && !top.flags.has(Flags::SHARE_LLC));
    let own = d.local(d.chain(5)[1]);
    assert_eq!((own.weight, own.cores, own.capacity), (4, 4, 4096));
    assert!(own.flags.has(Flags::SHARE_LLC));
}

#[test]
fn clusters_are_a_level_where_several_cores_share_an_l2() {
    let (_, d) = built(Shape {
        sockets: 2,
        cores_per_llc: 8,
        cores_per_cluster: 4,
        distances: vec![vec![10, 21], vec![21, 10]],
        ..Shape::default()
    });
    assert_eq!(chain(&d, 1), "CLS 0-3 | MC 0-7 | NUMA 0-15");
    let cls = d.of(1).next().unwrap();
    assert!(cls.flags.has(Flags::CLUSTER | Flags::SHARE_LLC));
    assert_eq!(
        (cls.imbalance_pct, cls.cache_nice_tries, cls.level_nr),
        (117, 1, 1)
    );
    assert_eq!((d.llc(5).share_id, d.llc(5).id, d.llc(5).size), (4, 0, 8));
    // One cache a node of eight CPUs: an eighth of them.
    let imb: Vec<u32> = d.of(1).map(|d| d.imb_numa_nr).collect();
    assert_eq!(imb, [0, 0, 1]);
}

#[test]
fn several_caches_of_a_node_count_for_the_imbalance_and_double_with_the_span() {
    // As on the large EPYC: 8 caches of 16 threads a node, far nodes still in reach.
    let (m, d) = built(Shape {
        sockets: 2,
        llcs_per_socket: 8,
        cores_per_llc: 8,
        smt: 2,
        distances: vec![vec![10, 32], vec![32, 10]],
        ..Shape::default()
    });
    assert_eq!(
        chain(&d, 130),
        "SMT 2,130 | MC 0-7,128-135 | PKG 0-63,128-191 | NUMA 0-255"
    );
    let imb: Vec<u32> = d.of(0).map(|d| d.imb_numa_nr).collect();
    assert_eq!(imb, [0, 0, 8, 8]);
    let near = Flags::BALANCE_EXEC | Flags::BALANCE_FORK | Flags::WAKE_AFFINE;
    assert!(
        !d.of(0).last().unwrap().flags.has_any(near),
        "32 is beyond 30"
    );
    let mut zen = m;
    zen.reclaim_distance = 32;
    let d = Domains::build(&zen);
    assert!(d.of(0).last().unwrap().flags.has(near));
}

#[test]
fn more_nodes_allow_more_imbalance() {
    // Four nodes of 64 CPUs with one cache: 8 where two nodes meet, 16 where four do.
    let far = vec![
        vec![10, 20, 30, 30],
        vec![20, 10, 30, 30],
        vec![30, 30, 10, 20],
        vec![30, 30, 20, 10],
    ];
    let m = nodes(64, far);
    let d = Domains::build(&m);
    check(&m, &d);
    let numa: Vec<(u32, Option<u32>, u32)> = d
        .of(0)
        .filter(|d| d.level == LevelName::Numa)
        .map(|d| (d.span_weight, d.distance, d.imb_numa_nr))
        .collect();
    assert_eq!(numa, [(128, Some(20), 8), (256, Some(30), 16)]);
}

#[test]
fn nodes_within_a_package_drop_the_package_level_on_x86_only() {
    // Sub-NUMA clusters: one socket, one L3 as sysfs shows it, two nodes.
    let shape = Shape {
        nodes: Some(2),
        cores_per_llc: 8,
        distances: vec![vec![10, 12], vec![12, 10]],
        ..Shape::default()
    };
    let (_, d) = built(shape.clone());
    assert_eq!(chain(&d, 5), "MC 4-7 | NUMA 0-7");
    assert_eq!(d.of(5).last().unwrap().level_nr, 4, "SMT CLS MC NODE NUMA");
    let (_, d) = built(Shape {
        arch: Arch::Generic,
        ..shape.clone()
    });
    assert_eq!(
        d.of(5).last().unwrap().level_nr,
        5,
        "SMT CLS MC PKG NODE NUMA"
    );
    // Nodes of several caches show as NODE there.
    let (_, d) = built(Shape {
        llcs_per_socket: 4,
        cores_per_llc: 2,
        ..shape
    });
    assert_eq!(chain(&d, 5), "MC 4-5 | NODE 4-7 | NUMA 0-7");
}

#[test]
fn a_cluster_as_wide_as_the_cache_survives_on_x86_alone() {
    let shape = Shape {
        sockets: 2,
        nodes: Some(1),
        cores_per_llc: 4,
        cores_per_cluster: 4,
        ..Shape::default()
    };
    let (_, d) = built(shape.clone());
    assert_eq!(chain(&d, 0), "CLS 0-3 | PKG 0-7");
    let (_, d) = built(Shape {
        arch: Arch::Generic,
        ..shape
    });
    assert_eq!(chain(&d, 0), "MC 0-3 | PKG 0-7");
}

#[test]
fn capacities_that_differ_mark_the_level_where_they_meet() {
    let llc = [0, 1, 1, 0, 0, 0];
    let cpus = (0..6).map(|i| Cpu {
        core: i,
        cluster: i,
        llc: llc[i as usize],
        node: 0,
        socket: 0,
        capacity: if llc[i as usize] == 1 { 1024 } else { 446 },
    });
    let m = Machine::new(Arch::Generic, cpus.collect(), vec![vec![10]]).unwrap();
    let d = Domains::build(&m);
    check(&m, &d);
    assert_eq!(chain(&d, 0), "MC 0,3-5 | PKG 0-5");
    let asym = Flags::ASYM_CPUCAPACITY | Flags::ASYM_CPUCAPACITY_FULL;
    let [mc, pkg] = [0, 1].map(|i| d.of(0).nth(i).unwrap());
    assert!(pkg.flags.has(asym) && !mc.flags.has_any(asym));
    // Little CPUs are not emptied for the sake of big ones.
    assert!(!mc.flags.has(Flags::PREFER_SIBLING) && pkg.flags.has(Flags::PREFER_SIBLING));
    let capacities: Vec<u64> = d.groups(d.chain(0)[1]).map(|g| g.capacity).collect();
    assert_eq!(capacities, [4 * 446, 2048]);
    assert_eq!(d.lowest(0, Flags::ASYM_CPUCAPACITY_FULL), Some(1));
}

#[test]
fn a_part_of_the_capacities_is_no_full_asymmetry() {
    // Two caches with two kinds each of three.
    let kinds = [300, 600, 600, 1024];
    let cpus = (0..4).map(|i| Cpu {
        core: i,
        cluster: i,
        llc: i / 2,
        node: 0,
        socket: 0,
        capacity: kinds[i as usize],
    });
    let m = Machine::new(Arch::Generic, cpus.collect(), vec![vec![10]]).unwrap();
    let d = Domains::build(&m);
    check(&m, &d);
    let flags: Vec<Flags> = d.of(0).map(|d| d.flags).collect();
    assert!(flags[0].has(Flags::ASYM_CPUCAPACITY) && !flags[0].has(Flags::ASYM_CPUCAPACITY_FULL));
    assert!(flags[1].has(Flags::ASYM_CPUCAPACITY_FULL));
}

/// Four nodes in a row, three hops from end to end: children of far siblings reach beyond the domain, so groups come from
/// lower levels.
#[test]
fn three_hops() {
    let row = vec![
        vec![10, 20, 30, 40],
        vec![20, 10, 20, 30],
        vec![30, 20, 10, 20],
        vec![40, 30, 20, 10],
    ];
    let m = nodes(2, row);
    let d = Domains::build(&m);
    check(&m, &d);
    assert_eq!(chain(&d, 0), "MC 0-1 | NUMA 0-3 | NUMA 0-5 | NUMA 0-7");
    // Node 1 sees all within two hops: the third level says nothing new there.
    assert_eq!(chain(&d, 2), "MC 2-3 | NUMA 0-5 | NUMA 0-7");
    assert_eq!(groups(&d, 0, 1), "0:0-1 2:2-3");
    // Node 2's own child, 2-7, reaches beyond 0-5: its group comes from one level below.
    assert_eq!(groups(&d, 0, 2), "0:0-3(0-1) 4:4-5");
    assert_eq!(groups(&d, 0, 3), "0:0-5(0-1) 6:2-7(6-7)");
    let far = d.of(0).last().unwrap();
    assert_eq!(far.distance, Some(40));
    assert!(
        !far.flags
            .has_any(Flags::WAKE_AFFINE | Flags::BALANCE_FORK | Flags::BALANCE_EXEC)
    );
    assert!(
        far.flags
            .has(Flags::BALANCE_NEWIDLE | Flags::SERIALIZE | Flags::NUMA | Flags::OVERLAP)
    );
}

/// The machine of the kernel list's thread on groups beyond their domain (2021), with what a mended kernel printed there.
#[test]
fn three_hops_as_a_kernel_printed_them() {
    let m = nodes(
        2,
        vec![
            vec![10, 12, 20, 22],
            vec![12, 10, 22, 24],
            vec![20, 22, 10, 12],
            vec![22, 24, 12, 10],
        ],
    );
    let d = Domains::build(&m);
    check(&m, &d);
    assert_eq!(chain(&d, 0), "MC 0-1 | NUMA 0-3 | NUMA 0-5 | NUMA 0-7");
    assert_eq!(groups(&d, 0, 1), "0:0-1 2:2-3");
    assert_eq!(groups(&d, 0, 2), "0:0-3 4:4-5");
    assert_eq!(groups(&d, 0, 3), "0:0-5(0-1) 6:4-7(6-7)");
    // Here a level in between has gone, and its CPUs may balance no more.
    assert_eq!(chain(&d, 2), "MC 2-3 | NUMA 0-3 | NUMA 0-5 | NUMA 0-7");
    assert!(groups(&d, 2, 2).starts_with("2:0-3(2-3)"));
}

/// Four nodes in a ring: groups overlap, and only CPUs that have a group as their own child may balance for it.
#[test]
fn a_ring_of_four() {
    let ring = vec![
        vec![10, 20, 30, 20],
        vec![20, 10, 20, 30],
        vec![30, 20, 10, 20],
        vec![20, 30, 20, 10],
    ];
    let m = nodes(1, ring);
    let d = Domains::build(&m);
    check(&m, &d);
    assert_eq!(chain(&d, 0), "NUMA 0-1,3 | NUMA 0-3");
    assert_eq!(groups(&d, 0, 0), "0:0 1:1 3:3");
    assert_eq!(groups(&d, 0, 1), "0:0-1,3(0) 2:1-3(2)");
    assert_eq!(groups(&d, 1, 1), "1:0-2(1) 3:0,2-3(3)");
}

/// Eight nodes without glue: each socket has two nodes, and a node reaches some others in two hops only.
#[test]
fn eight_nodes_glueless() {
    // As on eight-socket machines whose sockets form two quads.
    let d8 = |a: usize, b: usize| match (a == b, a / 4 == b / 4, a % 4 == b % 4) {
        (true, _, _) => 10,
        (_, true, _) | (_, _, true) => 20,
        _ => 30,
    };
    let distances = (0..8).map(|a| (0..8).map(|b| d8(a, b)).collect()).collect();
    let m = nodes(1, distances);
    let d = Domains::build(&m);
    check(&m, &d);
    assert_eq!(chain(&d, 0), "NUMA 0-4 | NUMA 0-7");
    assert_eq!(groups(&d, 0, 0), "0:0 1:1 2:2 3:3 4:4");
    // From node 0 the first sibling out of reach is node 5, whose near nodes are 1 and 4 to 7.
    assert_eq!(groups(&d, 0, 1), "0:0-4(0) 5:1,4-7(5)");
    assert!(groups(&d, 6, 1).starts_with("6:2,4-7(6) 0:0-4(0)"));
}

#[test]
fn rings_follow_the_order_of_the_last_cpu_and_begin_with_the_own_group() {
    let (_, d) = built(Shape {
        cores_per_llc: 4,
        smt: 2,
        siblings: Siblings::Apart,
        ..Shape::default()
    });
    assert_eq!(groups(&d, 6, 1), "2:2,6 3:3,7 0:0,4 1:1,5");
    assert_eq!(groups(&d, 6, 0), "6:6 2:2");
}

#[test]
fn thousands_of_cpus_share_what_is_equal() {
    let m = Machine::of_shape(&Shape {
        sockets: 512,
        cores_per_llc: 4,
        smt: 2,
        ..Shape::default()
    })
    .unwrap();
    let d = Domains::build(&m);
    // A domain a core, one a socket, and the whole as each socket sees it, itself first.
    assert_eq!(d.all().len(), 2048 + 512 + 512);
    assert_eq!(d.groups(d.chain(9)[2]).count(), 512);
}

#[test]
fn machines_that_cannot_be() {
    let error = |m: Result<Machine, MachineError>| m.unwrap_err().to_string();
    let cpu = |core, llc, node| Cpu {
        core,
        cluster: core,
        llc,
        node,
        socket: 0,
        capacity: 1024,
    };
    let new = |cpus, distances| Machine::new(Arch::X86, cpus, distances);
    assert_eq!(
        error(new(vec![], vec![vec![10]])),
        "the machine has no CPU; expected at least 1"
    );
    assert_eq!(
        error(new(vec![cpu(0, 0, 0), cpu(0, 1, 0)], vec![vec![10]])),
        "core 0: CPUs 0 and 1 are in different last-level caches; expected one"
    );
    let two = || vec![cpu(0, 0, 0), cpu(1, 0, 1)];
    assert_eq!(
        error(new(two(), vec![vec![10, 20], vec![21, 10]])),
        "distances: node 0 to node 1 is 20, but node 1 to node 0 is 21; expected equal ones"
    );
    assert_eq!(
        error(new(two(), vec![vec![10, 20], vec![20]])),
        "distances: row 1 has 1 entries; expected 2, one a node"
    );
    assert_eq!(
        error(new(two(), vec![vec![10]])),
        "distances: 1 rows for 2 nodes; expected one row a node"
    );
    assert_eq!(
        error(new(two(), vec![vec![10, 256], vec![256, 10]])),
        "distances: node 0 to node 1 is 256; expected 10 to 255"
    );
    assert_eq!(
        error(new(two(), vec![vec![11, 20], vec![20, 10]])),
        "distances: node 0 to node 0 is 11; expected 10, the distance of a node to itself"
    );
    assert_eq!(
        error(new(vec![cpu(0, 0, 1)], vec![vec![10, 20], vec![20, 10]])),
        "node 0 has no CPU; leave out nodes of memory alone"
    );
    let slow = Cpu {
        capacity: 0,
        ..cpu(0, 0, 0)
    };
    assert_eq!(
        error(new(vec![slow], vec![vec![10]])),
        "CPU 0: capacity 0; expected 1 to 1024"
    );
    let many = Shape {
        sockets: 4_096,
        smt: 4_096,
        ..Shape::default()
    };
    assert_eq!(
        error(Machine::of_shape(&many)),
        "16777216 CPUs; a machine has at most 4096"
    );
    let none = Shape {
        smt: 0,
        ..Shape::default()
    };
    assert_eq!(
        error(Machine::of_shape(&none)),
        "the machine has no CPU; expected at least 1"
    );
}
