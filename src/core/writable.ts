/**
 * For a copy that is changed before anybody else sees it. `{ ...record }` and then setting fields took about half the time of
 * `{ ...record, field: value }` in profiles of many runs at once; in a loop of its own there is no difference.
 *
 * @example const next: Writable<Row> = { ...row }
 */
export type Writable<T> = { -readonly [Field in keyof T]: T[Field] }
