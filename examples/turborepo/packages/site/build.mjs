// Stands for a bundler: it reads what the package before it built.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'

const words = readFileSync('../words/dist/words.bin')
mkdirSync('dist', { recursive: true })
writeFileSync('dist/site.html', `<p>${words.length} bytes</p>\n`)
console.log('bundled')
