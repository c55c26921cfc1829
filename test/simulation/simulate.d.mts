// Types of simulate.mjs, for the tests.

export interface SimulationReport {
  readonly violation: Error | null
  readonly traceHash: number
  readonly events: number
  readonly replays: readonly { readonly share: number }[]
}

export function simulate(
  seed: number,
  options?: { readonly plant?: string | null; readonly print?: ((line: string) => void) | null },
): Promise<SimulationReport>
