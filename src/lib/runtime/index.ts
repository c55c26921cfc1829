// The runtime that executes this code, chosen by the conditions of `#runtime` in package.json.

import { runtime as chosen } from '#runtime'
import type { Runtime } from './port.ts'

export const runtime: Runtime = chosen
