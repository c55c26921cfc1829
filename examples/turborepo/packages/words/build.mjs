// Stands for a compiler: large enough for an artifact that has chunks of its own.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'

let state = readFileSync('words.txt').reduce((sum, byte) => (sum * 31 + byte) >>> 0, 7)
const compiled = Uint8Array.from({ length: 20_000 }, () => {
  state = (state * 1_664_525 + 1_013_904_223) >>> 0
  return state >>> 24
})
mkdirSync('dist', { recursive: true })
writeFileSync('dist/words.bin', compiled)
console.log(`compiled ${compiled.length} bytes`)
