// Puts chunks into a directory, and prints `ACK chunks n` when they are durable. One argument, as JSON: { directory, count }.

import { writeSync } from 'node:fs'
import { sha256 } from '../../dist/engine/base/platform.js'
import { openDirectoryBlobs } from '../../dist/stores/directory-blobs.js'

const { directory, count } = JSON.parse(process.argv[2])
const blobs = await openDirectoryBlobs(directory)
for (let n = 1; n <= count; n++) {
  const bytes = new TextEncoder().encode(`chunk ${n} `.repeat(100))
  await blobs.put([{ digest: sha256(bytes), bytes }])
  writeSync(1, `ACK chunks ${n}\n`)
}
