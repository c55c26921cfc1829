// Resolves with the result of the work, or rejects with this error if it takes longer.

import type { RepriseError } from '../core/errors.ts'

export async function within<T>(work: Promise<T>, ms: number, late: () => RepriseError): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), ms)
  })
  try {
    return await Promise.race([work, over])
  } finally {
    clearTimeout(timer)
  }
}
