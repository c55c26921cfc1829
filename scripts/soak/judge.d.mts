export interface Verdict {
  readonly figure: string
  readonly first: number | null
  readonly last: number | null
  readonly rise: number
  readonly allowed: number | null
  readonly isFlat: boolean | null
}

export const warmUpShare: number
export const bounds: Readonly<
  Record<string, { readonly share: number; readonly least: number; readonly time?: string }>
>
export function judge(windows: readonly Readonly<Record<string, number | null | undefined>>[]): Verdict[]
export function medianOf(numbers: readonly number[]): number | null
