// What the head of a timeline and the row of a worker say about themselves under a name, for people and for queries.

export type Attribute = string | number | boolean
