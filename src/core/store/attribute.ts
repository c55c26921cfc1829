// A named value on the head of a timeline or the row of a worker, for people and for queries.

export type Attribute = string | number | boolean
