// `reprise serve --open`, with an opener of our own on the path that records its arguments.

import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { cli } from '../cli/support.ts'
import { until } from '../support/fixture.ts'
import { type Cleanups, type Place, placeOn, startServe, tokenIn } from './serving.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

/** Under the names of both platforms; its arguments and its environment are written at once. */
function openerIn({ folder }: Place) {
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  for (const name of ['xdg-open', 'open']) {
    const file = join(bin, name)
    writeFileSync(file, '#!/bin/sh\nprintf "%s\\n" "$@" > "$NOTE.part"\nenv >> "$NOTE.part"\nmv "$NOTE.part" "$NOTE"\n')
    chmodSync(file, 0o700)
  }
  return {
    noteOf: (note: string) => join(folder, note),
    env: (note: string) => ({
      ...process.env,
      PATH: `${bin}${delimiter}${process.env.PATH}`,
      NOTE: join(folder, note),
    }),
  }
}

it('passes a one-time link to the opener; no token, and no link in the log', async () => {
  const place = await placeOn('sqlite', cleanups)
  const opener = openerIn(place)
  const quiet = await startServe(place, cleanups, [], opener.env('quiet'))
  expect((await fetch(`http://127.0.0.1:${place.port}/healthz`)).status).toBe(200)
  await quiet.kill()

  const running = await startServe(place, cleanups, ['--open'], opener.env('asked'))
  await until(() => existsSync(opener.noteOf('asked')))
  // It started before the other one, which was heard of: nothing was opened unasked.
  expect(existsSync(opener.noteOf('quiet'))).toBe(false)

  const [link, ...environment] = readFileSync(opener.noteOf('asked'), 'utf8').split('\n')
  const address = `http://127.0.0.1:${place.port}`
  expect(link).toMatch(new RegExp(`^${address}/#/login/[\\w.-]{16,}$`))
  const token = tokenIn(place.folder)
  expect([link, ...environment].join('\n')).not.toContain(token)

  const redeem = () =>
    fetch(`${address}/v1/sessions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ code: link!.split('/login/')[1] }),
    })
  expect((await redeem()).status).toBe(201)
  expect((await redeem()).status).toBe(401)

  // Its output is not a terminal here: output to a file contains no sign-in link.
  expect(running.said()).toContain(`at ${address}\n`)
  expect(running.said()).not.toContain('/login/')
  expect(running.said()).not.toContain(token)
})

it('reports a missing opener, and serves all the same', async () => {
  const place = await placeOn('sqlite', cleanups)
  const running = await startServe(place, cleanups, ['--open'], { ...process.env, PATH: place.folder })
  await until(() => running.said().includes('--open'))
  expect(running.said()).toMatch(/--open: .*(xdg-open|open) is not installed/)
  expect(running.said()).not.toContain('/login/')
  expect((await fetch(`http://127.0.0.1:${place.port}/healthz`)).status).toBe(200)
})

it('reprise link prints a link of the running server, and reports a server that does not answer', async () => {
  const place = await placeOn('sqlite', cleanups)
  const address = `http://127.0.0.1:${place.port}`
  const away = await cli(['link', address, '--token', 'x'.repeat(40)], { cwd: place.folder })
  expect([away.code, away.stderr]).toEqual([7, expect.stringContaining(`no server responds at ${address}/`)])
  await startServe(place, cleanups, [])
  const { stdout } = await cli(['link', address, '--token-file', 'tokens.json'], { cwd: place.folder })
  expect(stdout).toMatch(new RegExp(`^${address}/#/login/[\\w.-]+\\n$`))
  const code = stdout.trim().split('/login/')[1]
  const headers = { 'content-type': 'application/json' }
  const begin = () => fetch(`${address}/v1/sessions`, { method: 'POST', headers, body: JSON.stringify({ code }) })
  const { session } = (await (await begin()).json()) as { session: string }
  const { status } = await fetch(`${address}/v1`, { headers: { authorization: `Bearer ${session}` } })
  expect([status, (await begin()).status]).toEqual([200, 401])
  const lacking = await cli(['link', address, '--token-file', 'missing.json'], { cwd: place.folder })
  expect(lacking.stderr).toContain('missing.json does not exist')
})
