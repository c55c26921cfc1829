// The size of a file in bytes; 0 if it does not exist.

import { statSync } from 'node:fs'

export function sizeOf(file: string): number {
  try {
    return statSync(file).size
  } catch {
    return 0
  }
}
