export function simulateErrands(
  seed: number,
  options?: { readonly plant?: string | null; readonly print?: ((text: string) => void) | null },
): Promise<{ violation: Error | null; traceHash: number; events: number; replays: readonly object[] }>
