// Bugs on purpose: each is a guard left out, and a test has to find it.

/** Bugs planted on purpose by the mutation gate; empty outside of tests. */
export type Planted = ReadonlySet<string>
