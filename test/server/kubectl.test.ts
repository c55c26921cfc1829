// kubectl against our server, behind a proxy with TLS as it has to be: without TLS it sends no token.

import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import { pathToFileURL } from 'node:url'
import { afterAll, expect, it } from 'vitest'
import { root } from '../cli/support.ts'
import { until } from '../support/fixture.ts'
import { type Cleanups, placeOn, startServe, tokenIn } from './serving.ts'

const kubectl = process.env.REPRISE_TEST_KUBECTL ?? 'kubectl'
const missing =
  spawnSync(kubectl, ['version', '--client']).status !== 0
    ? 'there is no kubectl on the PATH, and REPRISE_TEST_KUBECTL names none'
    : spawnSync('openssl', ['version']).status !== 0
      ? 'there is no openssl'
      : null
if (missing !== null) console.log(`skipped: kubectl is not tried: ${missing}`)

const cleanups: Cleanups = []
afterAll(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const program = `
import { resource } from ${JSON.stringify(pathToFileURL(join(root, 'dist/resources.js')).href)}
export const sites = resource('sites', { api: { shortNames: ['st'] } })
export const notes = resource('notes', { api: { namespaced: true } })
`

/** The port of a proxy in front of another port of this machine. */
async function proxied(folder: string, to: number): Promise<number> {
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const files = ['-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=127.0.0.1']
  spawnSync('openssl', [
    'req',
    '-x509',
    '-newkey',
    'rsa:2048',
    '-nodes',
    ...files,
    '-addext',
    'subjectAltName=IP:127.0.0.1',
  ])
  const proxy = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (outside) => {
    const inside = connect(to, '127.0.0.1')
    outside.pipe(inside).pipe(outside)
    for (const socket of [outside, inside]) {
      socket.on('error', () => undefined)
      socket.on('close', () => [outside, inside].map((each) => each.destroy()))
    }
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  cleanups.push(() => proxy.close())
  return (proxy.address() as AddressInfo).port
}

it.skipIf(missing !== null)('applies, shows, patches, follows and deletes objects', async () => {
  const place = await placeOn('sqlite', cleanups)
  const file = (name: string) => join(place.folder, name)
  writeFileSync(file('resources.mjs'), program)
  await startServe(place, cleanups, ['--module', file('resources.mjs')])
  const server = `https://127.0.0.1:${await proxied(place.folder, place.port)}`
  const config = {
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'here' },
    clusters: [{ name: 'here', cluster: { server, 'certificate-authority': file('cert.pem') } }],
    users: [{ name: 'me', user: { token: tokenIn(place.folder) } }],
    contexts: [{ name: 'here', context: { cluster: 'here', user: 'me' } }],
  }
  writeFileSync(file('kubeconfig'), JSON.stringify(config))
  const common = ['--kubeconfig', file('kubeconfig'), '--cache-dir', file('cache')]
  const start = (...args: string[]) => {
    const child = spawn(kubectl, [...common, ...args], { cwd: place.folder })
    let said = ''
    const hear = (piece: Buffer) => {
      said += piece
    }
    child.stdout.on('data', hear)
    child.stderr.on('data', hear)
    const over = new Promise<number | null>((resolve) => child.once('close', resolve))
    return { child, said: () => said, over }
  }
  /** Its output, once it has ended. The proxy is in this process: it must not be blocked. */
  const run = async (...args: string[]) => {
    const { said, over } = start(...args)
    const code = await over
    return `${code} ${said().trim()}`
  }
  const site = (replicas: number) =>
    writeFileSync(
      file('site.yaml'),
      `apiVersion: resources.reprise/v1\nkind: Site\nmetadata: { name: web, labels: { app: web } }\nspec: { replicas: ${replicas} }\n`,
    )
  expect(await run('api-resources')).toMatch(/sites\s+st\s+resources\.reprise\/v1\s+false\s+Site/)
  site(2)
  expect(await run('apply', '-f', 'site.yaml')).toBe('0 site.resources.reprise/web created')
  const following = start('get', 'sites', '-w', '-o', 'name')
  await until(() => following.said().includes('site.resources.reprise/web'))
  site(3)
  expect(await run('apply', '-f', 'site.yaml')).toBe('0 site.resources.reprise/web configured')
  expect(await run('apply', '-f', 'site.yaml')).toMatch(/unchanged$/)
  expect(await run('get', 'st', 'web', '-o', 'jsonpath={.spec.replicas} {.metadata.generation}')).toBe('0 3 2')
  expect(await run('patch', 'site', 'web', '--type=merge', '-p', '{"spec":{"replicas":7}}')).toMatch(/^0 .*patched$/)
  expect(await run('patch', 'site', 'web', '-p', '{"spec":{"replicas":8}}')).toMatch(/^1 .*unknown format/s)
  expect(await run('label', 'site', 'web', 'app=other', '--overwrite')).toMatch(/^0 .*labeled$/)
  expect(await run('delete', 'site', 'web')).toMatch(/^0 .*deleted/)
  expect(await run('get', 'sites', 'web')).toMatch(/^1 .*not found/)
  await until(() => following.said().trim().split('\n').length >= 5)
  following.child.kill('SIGKILL')
  await following.over
})
