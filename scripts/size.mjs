// Prints the lines of code and comments in src by part, and for the engine by floor: `npm run size`. Tests are counted apart.

import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const src = fileURLToPath(new URL('../src', import.meta.url))
const counts = new Map()
for (const path of readdirSync(src, { recursive: true, encoding: 'utf8' })) {
  if (!path.endsWith('.ts')) continue
  const [part, floor, ...rest] = path.replaceAll('\\', '/').split('/')
  const name = path.endsWith('.test.ts') ? 'tests in src' : floor === undefined ? 'entries' : part
  const lines = readFileSync(`${src}/${path}`, 'utf8').split('\n').length - 1
  for (const each of name === 'engine' && rest.length > 0 ? [name, `  engine/${floor}`] : [name]) {
    counts.set(each, (counts.get(each) ?? 0) + lines)
  }
}
for (const [name, lines] of [...counts].sort(([a], [b]) => (a.trim() < b.trim() ? -1 : 1))) {
  console.log(`${name.padEnd(24)}${lines.toLocaleString('en').padStart(8)}`)
}
