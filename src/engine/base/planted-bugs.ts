// Bugs planted on purpose: each removes one guard, and a test must detect it.

/** The planted bugs of the mutation gate. Empty outside of tests. */
export type Planted = ReadonlySet<string>
