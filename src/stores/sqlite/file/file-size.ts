// The bytes of a file, 0 if there is none.

import { statSync } from 'node:fs'

export function sizeOf(file: string): number {
  try {
    return statSync(file).size
  } catch {
    return 0
  }
}
