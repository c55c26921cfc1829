// close() releases everything that open took: no file of the store is open afterwards. node:sqlite finalizes statements when a
// database is closed. @photostructure/sqlite (Node before 22.13) cannot, and leaves a connection to the next garbage
// collection; for it, the test shows that no reference of ours keeps the connection alive.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { runtime } from '../../lib/runtime/index.ts'

const dist = fileURLToPath(new URL('../../../dist/index.js', import.meta.url))
const program = `
import { readdirSync, readlinkSync } from 'node:fs'
const [, , dist, folder] = process.argv
const { open, timeline } = await import(dist)
const held = () => readdirSync('/proc/self/fd').filter((fd) => {
  try { return readlinkSync('/proc/self/fd/' + fd).startsWith(folder) } catch { return false }
}).length
const counter = timeline('counter', { initial: () => 0, apply: (state) => state + 1 })
const turn = async () => {
  const rp = await open('sqlite:' + folder + '/store.db')
  const handle = await rp.open(counter, 'a')
  await handle.append({ type: 'added' })
  await handle.checkpoint()
  await rp.list()
  await rp.verify()
  const during = held()
  await rp.close()
  return during
}
const during = await turn()
const atOnce = held()
for (let i = 0; i < 3; i++) await turn()
for (let i = 0; i < 10; i++) { globalThis.gc(); await new Promise((resolve) => setTimeout(resolve, 10)) }
console.log(JSON.stringify({ during, atOnce, after: held() }))
`

it.runIf(existsSync('/proc/self/fd'))('no file of a closed store is open', () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-close-'))
  try {
    const argv = ['--expose-gc', '--input-type=module', '-e', program, 'program', dist, folder]
    const { stdout, stderr } = spawnSync(process.execPath, argv, { encoding: 'utf8' })
    expect(stdout, stderr).not.toBe('')
    const { during, atOnce, after } = JSON.parse(stdout) as Record<string, number>
    expect(during).toBeGreaterThan(0)
    if (runtime.files?.sqlite()) expect(atOnce).toBe(0)
    expect(after).toBe(0)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
