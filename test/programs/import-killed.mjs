// Imports a file and dies by its own hand after some commits, as a machine would in the middle of a long import.

import { open } from '../../dist/index.js'
import { hostOf } from '../support/host.mjs'

const [url, file, commits] = process.argv.slice(2)
const rp = await open(url)
const { store } = hostOf(rp).kernel
const commit = store.commit.bind(store)
let left = Number(commits)
store.commit = (batch) => {
  left -= batch.length
  if (left < 0) process.kill(process.pid, 'SIGKILL')
  return commit(batch)
}
await rp.import(file)
console.log('imported')
await rp.close()
