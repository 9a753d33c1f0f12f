//! Reported cases as scenarios: each runs its variants and checks the order, sign, ratio or count that the case expects.
//!
//! The scenarios lie in `scenarios/cases`; variants are overrides of them.

mod cases {
    mod bandwidth;
    mod classes;
    mod groups;
    mod help;
    mod placement;
    mod yields;
}
