// Types of file-simulate.mjs, for the tests.

import type { SimulationReport } from './simulate.mjs'

export function simulateFile(seed: number, options?: { readonly plant?: string | null }): Promise<SimulationReport>
