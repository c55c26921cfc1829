// The files for operators, run as far as a machine without Docker and without a cluster can: the steps of the image in a clean
// folder, the compose file as the package ships it, and the manifest against the schemas of a real API server.

import { spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, describe, expect, inject, it } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { ApiClient } from '../../src/adapters/kubernetes/api-client.ts'
import { connectTo } from '../../src/adapters/kubernetes/connection.ts'
import { serve } from '../../src/server/index.ts'
import { root } from '../cli/support.ts'
import { findBrowser, launch } from '../support/browser.mjs'
import { kubeMissing, startCluster } from '../support/kube-parts.ts'
import { freePort } from '../support/parts.ts'
import { dropSchema, newSchemaName } from '../support/schema.ts'
import { requestOf, startServer, tokens } from './support.ts'

const folder = mkdtempSync(join(tmpdir(), 'reprise-deploy-'))
const schemas: string[] = []
const found = await findBrowser()
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  for (const schema of schemas) await dropSchema(inject('postgresUrl'), schema)
})
const text = (name: string) => readFileSync(join(root, 'deploy', name), 'utf8')

/** One instruction per line; a line that ends with a backslash continues. */
function instructionsOf(dockerfile: string): { readonly name: string; readonly value: string }[] {
  return dockerfile
    .replaceAll(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => ({ name: line.split(' ')[0]!, value: line.slice(line.indexOf(' ') + 1).trim() }))
}

/** The application of a user, with the package as npm would have installed it: the packed files and their dependencies. */
function application(): string {
  const app = join(folder, 'app')
  mkdirSync(join(app, 'node_modules'), { recursive: true })
  const packed = spawnSync('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: root, encoding: 'utf8' })
  expect(packed.status).toBe(0)
  const tarball = join(folder, readdirSync(folder).find((name) => name.endsWith('.tgz'))!)
  mkdirSync(join(app, 'node_modules/reprise'))
  spawnSync('tar', ['-xzf', tarball, '--strip-components=1', '-C', join(app, 'node_modules/reprise')])
  const dependencies = { reprise: '*', hono: '*', '@hono/node-server': '*' }
  writeFileSync(join(app, 'package.json'), JSON.stringify({ name: 'app', private: true, dependencies }))
  writeFileSync(join(app, 'package-lock.json'), '{}')
  writeFileSync(join(app, '.env'), 'SECRET=1')
  return app
}

function dependenciesOf(place: string): string[] {
  const { dependencies = {} } = JSON.parse(readFileSync(join(place, 'package.json'), 'utf8')) as {
    dependencies?: Record<string, string>
  }
  return Object.keys(dependencies)
}

/** As npm would: with its own dependencies, from the modules of this repository. */
function install(app: string, name: string): void {
  const [from, to] = [join(root, 'node_modules', name), join(app, 'node_modules', name)]
  if (existsSync(to)) return
  cpSync(from, to, { recursive: true, dereference: true })
  for (const each of dependenciesOf(from)) install(app, each)
}

describe('the image', () => {
  const app = application()
  const steps = instructionsOf(readFileSync(join(app, 'node_modules/reprise/deploy/Dockerfile'), 'utf8'))
  const all = (name: string) => steps.filter((step) => step.name === name).map(({ value }) => value)

  it("excludes this machine's installed packages, the history and secrets", () => {
    const ignored = readFileSync(join(app, 'node_modules/reprise/deploy/Dockerfile.dockerignore'), 'utf8').split('\n')
    for (const each of ['node_modules', '.git', '.reprise', '.env*']) expect(ignored).toContain(each)
    expect(all('RUN')[0]).toMatch(/^npm ci --omit=dev /)
    // The files copied first suffice for the first step, and the image runs from the folder of the copies.
    expect(all('COPY')).toEqual(['package.json package-lock.json ./', '. .'])
  })

  // The steps that need the registry or another user are replaced: the package is copied to the place where npm ci would install
  // it.
  for (const name of ['hono', '@hono/node-server', 'pg', ...dependenciesOf(root)]) install(app, name)

  it.each([
    ['alone', () => ({})],
    ['with the environment of the compose file', composeEnvironment],
  ])(
    'starts by its last steps %s, becomes healthy, and answers to the token that it made',
    async (name, environment) => {
      const data = join(folder, `data ${name}`)
      mkdirSync(data)
      const port = await freePort()
      const here = (value: string) => value.replaceAll('/app/', `${app}/`).replaceAll('/data/', `${data}/`)
      const list = (name: string) => JSON.parse(here(all(name)[0]!)) as string[]
      const [command, ...args] = [...list('ENTRYPOINT'), ...list('CMD'), '--port', String(port)]
      const env = { ...process.env, NODE_ENV: 'production', ...environment() }
      const child = spawn(command!, args, { cwd: data, env, stdio: ['ignore', 'pipe', 'pipe'] })
      const closed = new Promise<number | null>((resolved) => child.once('close', resolved))
      let said = ''
      const hear = (piece: Buffer) => {
        said += piece
      }
      for (const stream of [child.stdout, child.stderr]) stream.on('data', hear)
      const health = JSON.parse(/CMD (\[.*\])$/.exec(all('HEALTHCHECK')[0]!)![1]!) as string[]
      const isHealthy = () => {
        const [node, ...rest] = health.map((each) => each.replace(':4400', `:${port}`))
        return spawnSync(node!, rest).status === 0
      }
      try {
        while (!isHealthy()) {
          if (child.exitCode !== null) throw new Error(said)
          await new Promise((resolved) => setTimeout(resolved, 50))
        }
        const file = JSON.parse(readFileSync(join(data, 'tokens.json'), 'utf8')) as { tokens: { token: string }[] }
        const headers = { authorization: `Bearer ${file.tokens[0]!.token}` }
        expect((await fetch(`http://127.0.0.1:${port}/v1/runs`, { headers })).status).toBe(200)
        // A log contains no link; a person requests one inside the container, in its folder and with its tokens.
        expect(said).not.toContain('login')
        const asking = [...list('ENTRYPOINT').slice(1), 'link', `http://127.0.0.1:${port}`]
        const own = ['--token-file', join(data, 'tokens.json')]
        const link = spawnSync(command!, [...asking, ...own], { cwd: data, encoding: 'utf8' })
        expect([link.status, link.stdout + link.stderr]).toEqual([0, expect.stringMatching(/\/#\/login\//)])
        child.kill('SIGTERM')
        expect([await closed, said]).toEqual([0, said])
      } finally {
        child.kill('SIGKILL')
      }
    },
    120_000,
  )

  it('is built by the compose file of the package, which names its parts', () => {
    const file = join(app, 'node_modules/reprise/deploy/compose.yaml')
    const { services } = parse(readFileSync(file, 'utf8')) as {
      services: Record<
        string,
        { build?: { context: string; dockerfile: string }; environment: Record<string, string>; ports?: string[] }
      >
    }
    expect(Object.keys(services)).toEqual(['postgres', 'reprise'])
    const { build, environment, ports } = services.reprise!
    const context = resolve(join(file, '..'), build!.context)
    expect([context, existsSync(join(context, build!.dockerfile))]).toEqual([app, true])
    const { POSTGRES_USER: user, POSTGRES_DB: database } = services.postgres!.environment
    const url = new URL(environment.REPRISE_URL!.replace('${POSTGRES_PASSWORD}', 'x'))
    expect([url.username, url.hostname, url.pathname]).toEqual([user, 'postgres', `/${database}`])
    expect(ports).toEqual([`127.0.0.1:${all('EXPOSE')[0]}:${all('EXPOSE')[0]}`])
  })
})

/** The environment of the service, with the database of this test run in place of the other service. */
function composeEnvironment(): Record<string, string> {
  const { services } = parse(text('compose.yaml')) as { services: { reprise: { environment: Record<string, string> } } }
  const { REPRISE_URL: url, ...rest } = services.reprise.environment
  const schema = newSchemaName()
  schemas.push(schema)
  const own = new URL(inject('postgresUrl'))
  own.searchParams.set('schema', schema)
  expect([new URL(url!.replace(/\$\{.*?\}/, 'x')).protocol, rest]).toEqual([own.protocol, {}])
  return { REPRISE_URL: own.href }
}

describe.skipIf('missing' in found)('the first contact', () => {
  it('is init, dev and a click: the job of the template runs on the page to its end', async () => {
    const app = join(folder, 'app')
    const place = join(app, 'first')
    mkdirSync(place)
    const bin = join(app, 'node_modules/reprise/dist/cli/bin.cjs')
    const made = spawnSync(process.execPath, [bin, 'init', '--yes'], { cwd: place, encoding: 'utf8' })
    expect(made.stdout).toContain('npx reprise dev papers.mjs --open')
    const args = [bin, 'dev', 'papers.mjs', '--port', String(await freePort())]
    const child = spawn(process.execPath, args, { cwd: place, stdio: ['ignore', 'pipe', 'pipe'] })
    const closed = new Promise((resolved) => child.once('close', resolved))
    const url = await new Promise<string>((resolved, refused) => {
      let said = ''
      const hear = (piece: Buffer) => {
        said += piece
        const [served] = /http:\S+/.exec(said) ?? []
        if (served) resolved(served)
      }
      for (const stream of [child.stdout, child.stderr]) stream.on('data', hear)
      void closed.then(() => refused(new Error(said)))
    })
    const browser = await launch(found)
    try {
      const link = spawnSync(process.execPath, [bin, 'link', url], { cwd: place, encoding: 'utf8' }).stdout
      const page = await (await browser.newContext()).newPage()
      page.setDefaultTimeout(60_000)
      await page.goto(/http:\S+/.exec(link)![0])
      await page.getByRole('button', { name: 'Start a run…' }).first().click()
      const dialog = page.getByRole('dialog')
      await dialog.getByRole('button', { name: 'Start', exact: true }).click()
      await page.getByRole('heading', { name: 'job/papers' }).waitFor()
      await page.locator('.timeline-head .status', { hasText: 'completed' }).waitFor()
      await page.locator('.stands-line', { hasText: '500 done' }).waitFor()
    } finally {
      await browser.close()
      child.kill('SIGKILL')
      await closed
    }
  }, 120_000)
})

interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string }
}

describe('the manifest', () => {
  const manifests = parseAllDocuments(text('kubernetes.yaml')).map((each) => each.toJS() as Manifest)
  const deployment = manifests[0] as unknown as {
    spec: {
      template: {
        metadata: { annotations: Record<string, string> }
        spec: { containers: [{ args: string[]; env: { name: string }[] }] }
      }
    }
  }

  it('names addresses under which the server answers: the service in the cluster and the pod that Prometheus scrapes', async () => {
    const [container] = deployment.spec.template.spec.containers
    const pod = '10.1.2.3'
    const line = container.args.join(' ').replaceAll('$(POD_IP)', pod)
    const origins = [...line.matchAll(/--origin (\S+)/g)].map(([, origin]) => origin!)
    expect(container.env.map(({ name }) => name)).toContain('POD_IP')
    const here = await startServer({ origins })
    const { annotations } = deployment.spec.template.metadata
    const port = annotations['prometheus.io/port']
    for (const host of [`${pod}:${port}`, 'reprise', 'reprise.default.svc.cluster.local', 'reprise.example.com']) {
      const asked = requestOf(annotations['prometheus.io/path']!, { headers: { host } })
      expect([host, (await here.server(asked)).status]).toEqual([host, 200])
    }
    expect((await here.server(requestOf('/metrics', { headers: { host: 'evil.example' } }))).status).toBe(403)
    await here.close()
    expect(() => serve(here.rp, { tokens, origins: ['reprise'] })).toThrow('origin')
  })

  it.skipIf(kubeMissing !== null)(
    'is taken by a real API server, every field of it',
    async () => {
      const cluster = await startCluster()
      try {
        const client = new ApiClient(connectTo(cluster.address))
        const create = async (body: Manifest) => {
          const plural = body.kind === 'PodDisruptionBudget' ? 'poddisruptionbudgets' : `${body.kind.toLowerCase()}s`
          const group = body.apiVersion === 'v1' ? '/api/v1' : `/apis/${body.apiVersion}`
          const path = `${group}/namespaces/default/${plural}?fieldValidation=Strict`
          return await client.ask({ method: 'POST', path, body, about: {} })
        }
        expect(manifests.map(({ kind }) => kind)).toEqual(['Deployment', 'Service', 'PodDisruptionBudget'])
        for (const each of manifests) await create(each)
        const wrong = { ...manifests[1]!, metadata: { name: 'other' }, spec: { ports: [{ port: 80, nonsense: 1 }] } }
        await expect(create(wrong)).rejects.toThrow(/nonsense/)
      } finally {
        await cluster.stop()
      }
    },
    120_000,
  )
})
