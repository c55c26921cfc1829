// The texts for proxies in docs/guides/server.md, run as they are written but for names of files and ports: a body of 20 MB, a
// port other than 443, an id with a slash, and a stream of events through real proxies.

import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { root } from '../cli/support.ts'
import { freePort } from '../support/parts.ts'
import { type Cleanups, placeOn, startServe, tokenIn } from './serving.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const name = 'reprise.example.com'
const guide = readFileSync(join(root, 'docs/guides/server.md'), 'utf8')

/** The indented block after its comment, without the indent. */
function textOf(proxy: string): string {
  const found = new RegExp(`^ {4}# ${proxy}\\n((?: {4}.*\\n)+)`, 'm').exec(guide)
  return found![1]!.replaceAll(/^ {4}/gm, '')
}

interface Files {
  readonly folder: string
  readonly port: number
  readonly upstream: number
}

const at = (folder: string, file: string) => join(folder, 'proxy', file)

function writeNginx({ folder, port, upstream }: Files): string[] {
  const site = textOf('nginx')
    .replace('listen 443 ssl', `listen 127.0.0.1:${port} ssl`)
    .replaceAll('/etc/ssl/reprise', at(folder, 'reprise'))
    .replace('127.0.0.1:4400', `127.0.0.1:${upstream}`)
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (each) => `${each}_temp_path ${at(folder, each)};`,
  )
  const around = `daemon off;\nmaster_process off;\npid ${at(folder, 'pid')};\nerror_log stderr warn;\nevents {}\n`
  writeFileSync(at(folder, 'nginx.conf'), `${around}http {\naccess_log off;\n${paths.join('\n')}\n${site}}\n`)
  return ['nginx', '-p', at(folder, ''), '-e', 'stderr', '-c', at(folder, 'nginx.conf')]
}

function writeCaddy({ folder, port, upstream }: Files): string[] {
  const site = textOf('Caddy')
    .replace(
      `${name} {`,
      `${name}:${port} {\n  bind 127.0.0.1\n  tls ${at(folder, 'reprise.crt')} ${at(folder, 'reprise.key')}`,
    )
    .replace('127.0.0.1:4400', `127.0.0.1:${upstream}`)
  writeFileSync(at(folder, 'Caddyfile'), `{\n  admin off\n  auto_https disable_redirects\n}\n${site}`)
  return ['caddy', 'run', '--adapter', 'caddyfile', '--config', at(folder, 'Caddyfile')]
}

interface Answer {
  readonly status: number
  readonly text: string
}

function asker(port: number, token: string) {
  return (method: string, path: string, body?: Buffer | string, until?: RegExp): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const headers = {
        host: `${name}:${port}`,
        authorization: `Bearer ${token}`,
        ...(body !== undefined && {
          'content-type': typeof body === 'string' ? 'application/json' : 'application/octet-stream',
          'content-length': Buffer.byteLength(body),
        }),
      }
      const options = { host: '127.0.0.1', port, servername: name, rejectUnauthorized: false, method, path, headers }
      const asked = request(options, (response) => {
        let text = ''
        const end = () => resolve({ status: response.statusCode!, text })
        response.setEncoding('latin1')
        response.on('data', (piece: string) => {
          text += piece
          if (!until?.test(text)) return
          end()
          asked.destroy()
        })
        response.on('end', end)
        response.on('error', reject)
      })
      asked.on('error', reject)
      asked.end(body)
    })
}

const has = (command: string, ...args: string[]) => spawnSync(command, args).status === 0
const missing = [
  ...(has('nginx', '-v') ? [] : ['nginx']),
  ...(has('caddy', 'version') ? [] : ['Caddy']),
  ...(has('openssl', 'version') ? [] : ['nginx', 'Caddy']),
]
for (const proxy of new Set(missing))
  console.log(`skipped: the text for ${proxy} is not run: ${proxy} or openssl is not here`)

describe.each([
  ['nginx', writeNginx],
  ['Caddy', writeCaddy],
] as const)('the text for %s', (proxy, write) => {
  it.skipIf(missing.includes(proxy))(
    'passes a large body, an id with a slash and a stream on, at another port',
    async () => {
      const place = await placeOn('sqlite', cleanups)
      const port = await freePort()
      await startServe(place, cleanups, ['--origin', `https://${name}:${port}`])
      const files = { folder: place.folder, port, upstream: place.port }
      mkdirSync(join(place.folder, 'proxy'))
      const made = ['-keyout', at(place.folder, 'reprise.key'), '-out', at(place.folder, 'reprise.crt')]
      const cert = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', `/CN=${name}`]
      spawnSync('openssl', [...cert, '-addext', `subjectAltName=DNS:${name}`, ...made])
      const [command, ...args] = write(files)
      const env = { ...process.env, HOME: at(place.folder, ''), XDG_DATA_HOME: at(place.folder, 'data') }
      const child = spawn(command!, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
      let said = ''
      child.stderr.on('data', (piece: Buffer) => {
        said += piece
      })
      let isOver = false
      const closed = new Promise<void>((resolve) => child.once('close', () => resolve()))
      void closed.then(() => {
        isOver = true
      })
      cleanups.push(async () => {
        child.kill('SIGKILL')
        await closed
      })
      const ask = asker(port, tokenIn(place.folder))
      const isReady = () =>
        ask('GET', '/readyz').then(
          ({ status }) => status === 200,
          () => false,
        )
      while (!(await isReady())) {
        if (isOver) throw new Error(`${proxy} ended: ${said}`)
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      const streaming = ask('GET', '/v1/feed/stream', undefined, /first-order/)
      const entries = JSON.stringify({ entries: [{ type: 'order', data: { text: 'first-order' } }] })
      expect((await ask('POST', '/v1/timelines/shop%2Forders/entries', entries)).status).toBe(200)
      expect((await ask('GET', '/v1/timelines/shop%2Forders/history')).text).toContain('first-order')
      expect((await streaming).status).toBe(200)
      const bytes = Buffer.alloc(20 * 1024 * 1024, 'reprise ')
      expect(await ask('PUT', '/v8/artifacts/abcdef0123456789', bytes)).toMatchObject({ status: 202 })
      const back = await ask('GET', '/v8/artifacts/abcdef0123456789')
      expect([back.status, back.text.length, back.text === bytes.toString('latin1')]).toEqual([200, bytes.length, true])
    },
    120_000,
  )
})
