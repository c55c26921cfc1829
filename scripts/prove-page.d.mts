export interface Row {
  readonly id: string
  readonly commit: string
  readonly done: number
  readonly failed: number
}
export const begin: string
export const end: string
export function rowsOf(proofs: readonly object[], slices: readonly object[]): Row[]
export function updatePage(path: string, rows: readonly Row[]): void
