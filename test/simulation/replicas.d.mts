export function simulateReplicas(
  seed: number,
  options?: { plant?: string | null; print?: ((line: string) => void) | null },
): Promise<{ violation: string | null; commands: number; refusals: number; displaced: number; events: number }>
