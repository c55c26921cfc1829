// The packed tarball in an empty folder, on every supported Node, as a user installs it. The npm package `node` provides the
// other versions; offline they are skipped with the reason. REPRISE_NODES names others.

import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, posix } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import { open } from '../../src/index.ts'
import { workflows } from '../../src/layers/workflow/index.ts'
import { follow, killOnce, linesOf, stepsOf } from '../site/tutorial.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { root } from './support.ts'

const folder = temporaryFolder('pack')
const versions = (process.env.REPRISE_NODES ?? '20,22,24').split(',')
const quiet = ['--no-audit', '--no-fund', '--loglevel=error']
let tarball = ''
/** The folder in which it was installed, before anything ran there. */
let installed: string | null = null

function run(command: string, args: readonly string[], cwd: string, env: Record<string, string> = {}) {
  const ran = spawnSync(command, args, { cwd, encoding: 'utf8', timeout: 240_000, env: { ...process.env, ...env } })
  return { code: ran.status, stdout: ran.stdout ?? '', stderr: ran.stderr ?? '' }
}

beforeAll(() => {
  const packed = run('npm', ['pack', '--silent', '--pack-destination', folder], root)
  expect(packed.stderr + packed.stdout).toContain('reprise-')
  tarball = join(folder, readdirSync(folder).find((name) => name.endsWith('.tgz'))!)
})

/** The binary of that version: the current Node if it matches, otherwise the one from npm; null if there is none. */
function nodeOf(version: string): string | null {
  if (process.versions.node.startsWith(`${version}.`)) return process.execPath
  const home = join(tmpdir(), `reprise-node-${version}`)
  const binary = join(home, 'node_modules/node/bin/node')
  // npm does not run install scripts here, so the package contains the binary for the platform.
  const find = () => [binary, ...platformBinaries(home)].find((path) => existsSync(path)) ?? null
  if (find()) return find()
  mkdirSync(home, { recursive: true })
  writeFileSync(join(home, 'package.json'), '{"private":true}')
  const installed = run('npm', ['install', `node@${version}`, ...quiet], home)
  if (!find())
    console.warn(`Node ${version} is left out: ${installed.stderr.split('\n')[0] || 'npm brought no binary'}`)
  return find()
}

function platformBinaries(home: string): string[] {
  const modules = join(home, 'node_modules')
  const names = existsSync(modules) ? readdirSync(modules).filter((name) => name.startsWith('node-')) : []
  return names.map((name) => join(modules, name, 'bin/node'))
}

const packed = () =>
  run('tar', ['-tzf', tarball], folder)
    .stdout.trim()
    .split('\n')
    .map((name) => name.slice('package/'.length))

describe('the docs in the package', () => {
  it('exist, and every relative link and anchor in them leads somewhere inside the package', () => {
    const files = packed()
    for (const name of [
      'README.md',
      'docs/errors.md',
      'docs/api/README.md',
      'docs/guides/cli.md',
      'examples/papers.ts',
    ]) {
      expect(files).toContain(name)
    }
    const dead: string[] = []
    const pages = files.filter((name) => name.endsWith('.md'))
    const textOf = new Map(pages.map((name) => [name, readFileSync(join(root, name), 'utf8')]))
    let followed = 0
    for (const [page, text] of textOf) {
      for (const { target, anchor } of linksOf(text)) {
        followed += 1
        const path = target === '' ? page : posix.normalize(posix.join(posix.dirname(page), target)).replace(/\/$/, '')
        const isThere = files.includes(path) || files.some((name) => name.startsWith(`${path}/`))
        const isAnchored = anchor === '' || anchorsOf(textOf.get(path) ?? '').has(anchor)
        if (!isThere || !isAnchored) dead.push(`${page}: ${target}${anchor && `#${anchor}`}`)
      }
    }
    expect(dead).toEqual([])
    expect(followed).toBeGreaterThan(100)
  })

  it('the page that an error points to is found from a program', () => {
    const files = packed()
    const { docs } = new RepriseError('FENCED', 'x')
    const [, page, anchor] = /^reprise\/(.*)#(.*)$/.exec(docs)!
    expect(files).toContain(page)
    expect(anchorsOf(readFileSync(join(root, page!), 'utf8'))).toContain(anchor)
  })
})

describe('the dashboard in the package', () => {
  it('is included once, built, and adds less than 1.5 MB to the unpacked size', () => {
    const files = packed()
    const built = files.filter((name) => name.startsWith('dist/dashboard/'))
    expect(built).toContain('dist/dashboard/index.html')
    expect(files.filter((name) => name.startsWith('dashboard/') || name.endsWith('.map'))).toEqual([])
    const bytes = built.reduce((sum, name) => sum + statSync(join(root, name)).size, 0)
    expect(bytes).toBeGreaterThan(50_000)
    expect(bytes).toBeLessThan(1_500_000)
  })
})

/** Links that stay in the package: no address with a scheme. */
function linksOf(text: string): { readonly target: string; readonly anchor: string }[] {
  const prose = text.replaceAll(/```[\s\S]*?```/g, '').replaceAll(/`[^`\n]*`/g, '')
  return [...prose.matchAll(/\]\(([^()\s]+)\)/g)].flatMap(([, link]) => {
    if (/^[a-z]+:/.test(link!)) return []
    const [target = '', anchor = ''] = link!.split('#')
    return [{ target, anchor }]
  })
}

/** As forges make them of headings. */
function anchorsOf(text: string): Set<string> {
  const headings = [...text.replaceAll(/```[\s\S]*?```/g, '').matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading!)
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\w\s-]/g, '')
        .trim()
        .replaceAll(/\s/g, '-'),
    ),
  )
}

/** Installs the tarball once; npm installs the same files for every Node. */
function copyInstalled(home: string): void {
  if (!installed) {
    const place = join(folder, 'installed')
    mkdirSync(place)
    writeFileSync(join(place, 'package.json'), '{"private":true,"type":"module"}')
    const told = run('npm', ['install', tarball, ...quiet], place)
    expect(told.code, told.stderr).toBe(0)
    installed = place
  }
  cpSync(installed, home, { recursive: true, verbatimSymlinks: true })
}

describe.each(versions)('the package on Node %s', (version) => {
  it('installs in seconds with fewer than 10 packages, and the commands of the README work', () => {
    const node = nodeOf(version)
    if (!node) return
    const home = join(folder, `on-${version}`)
    copyInstalled(home)
    const lock = JSON.parse(readFileSync(join(home, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { optional?: boolean }>
    }
    expect(Object.keys(lock.packages).length - 1).toBeLessThan(10)

    const bin = join(home, 'node_modules/reprise/dist/cli/bin.cjs')
    const cli = (...args: string[]) => run(node, [bin, ...args], home)
    expect(cli('--version').stdout.trim()).toBe(
      version && (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }).version,
    )
    const demo = cli('demo', '--items', '200', '--json')
    expect(JSON.parse(demo.stdout.split('\n')[0]!)).toMatchObject({ lost: 0, kills: 3 })
    expect(cli('init', '--yes', '--language', 'js').code).toBe(0)
    const first = cli('run', 'papers.mjs')
    expect([first.code, first.stdout]).toEqual([0, expect.stringContaining('500 items done')])
    expect(cli('ls').stdout).toContain('job/papers')
    expect(cli('doctor').code).toBe(0)
    const explained = cli('explain', 'FENCED').stdout
    expect(existsSync(join(home, /^page +(.*)#fenced$/m.exec(explained)![1]!))).toBe(true)
    const resolved = "console.log(import.meta.resolve('reprise/docs/errors.md'))"
    expect(run(node, ['--input-type=module', '-e', resolved], home).stdout).toContain('/docs/errors.md')
    // Node strips no types below node_modules, so people copy the examples out.
    cpSync(join(home, 'node_modules/reprise/examples'), join(home, 'examples'), { recursive: true })
    // The examples are written in TypeScript: they run on the first Node that strips types.
    if (version === versions.find((each) => Number(each) >= 22)) {
      for (const name of readdirSync(join(home, 'examples'))) {
        // Other languages have their own tests. One needs the packages of LangGraph, which a user of LangGraph has.
        if (!name.endsWith('.ts') || name === 'langgraph-app.ts') continue
        const example = run(node, [join('examples', name)], home)
        expect([name, example.code, example.stderr.includes('Error')], example.stderr).toEqual([name, 0, false])
        expect(example.stdout.trim()).not.toBe('')
      }
    }
    const types = cli('init', 'typed', '--yes', '--language', 'ts')
    expect(types.code).toBe(0)
    const typed = cli('run', 'typed/papers.ts', '--report', 'none')
    if (Number(version) >= 22) expect(typed.code, typed.stderr).toBe(0)
  }, 300_000)
})

describe('the tutorial', () => {
  it('holds as it is written: two crashes that its reader causes, no invoice lost, one charge', async () => {
    const home = join(folder, 'tutorial')
    copyInstalled(home)
    const page = readFileSync(join(root, 'docs/start/tutorial.md'), 'utf8')
    const isInstalling = (command: string) => ['npm init -y', `npm install ./${basename(tarball)}`].includes(command)
    const store = `sqlite:${join(home, '.reprise/reprise.db')}`
    const isTimeToKill = async () => {
      if (!existsSync(join(home, 'checkout.mjs'))) return linesOf(join(home, 'sent.txt')).length >= 20
      if (linesOf(join(home, 'bank.txt')).length === 0) return false
      await using rp = await open(store, { readOnly: true })
      return (await workflows(rp).list({ status: 'waiting' })).length === 1
    }
    const ran = await follow(page, home, isInstalling, isTimeToKill)
    const outputs = (command: string) =>
      ran.filter((each) => each.command.startsWith(command)).map(({ stdout }) => stdout.trim())
    const [crashed, resumed] = ran.filter((each) => each.command === 'npx reprise run invoices.mjs')
    expect(crashed!.stdout).not.toContain('items done')
    const [, done, skipped] = /(\d+) items done, (\d+) skipped, .*resumed from job\/invoices@\d+/.exec(resumed!.stdout)!
    expect(Number(done) + Number(skipped)).toBe(120)
    expect(Number(skipped)).toBeGreaterThan(10)
    expect(outputs('cut ')).toEqual(['120'])
    expect(outputs('sort ')[0]!.split('\n').length).toBeLessThanOrEqual(4)
    expect(outputs('npx reprise ls')[0]).toMatch(/job\/invoices +running/)
    expect(outputs('cat ')[0]).toMatch(/^charged 1999 with (charge-\w+)\nshipped$/)
    const failed = ran.find((each) => each.command.includes('--id second'))!
    expect([failed.code, failed.stderr]).toEqual([5, expect.stringContaining('nothing left in stock')])
    expect(linesOf(join(home, 'bank.txt')).slice(2).join('\n')).toMatch(/^charged 9900 with (\S+)\nrefunded \1$/)
    expect(outputs('npx reprise log')[0]).toContain('undone')
    expect(outputs('npx reprise verify')[0]).toMatch(/^ok /)
  }, 300_000)
})

describe('the skill for coding agents', () => {
  it('is in the package, and its commands run in their order', () => {
    const home = join(folder, 'skill')
    copyInstalled(home)
    const skill = join(home, 'node_modules/reprise/skills/reprise')
    const [, name, description] = /^---\nname: (.*)\ndescription: (.*)\n---\n/.exec(
      readFileSync(join(skill, 'SKILL.md'), 'utf8'),
    )!
    expect(name).toBe('reprise')
    expect(description!.length).toBeLessThan(1024)
    const steps = stepsOf(readFileSync(join(skill, 'references/operate.md'), 'utf8'))
    expect(steps.length).toBeGreaterThan(8)
    const bin = join(home, 'node_modules/reprise/dist/cli/bin.cjs')
    for (const { text } of steps) {
      const ran = run(process.execPath, [bin, ...text.split(' ').slice(2)], home)
      expect([text, ran.code, ran.stderr.includes('USAGE')], ran.stderr).toEqual([text, 0, false])
    }
  }, 300_000)
})

describe('templates of the package', () => {
  const made = (template: string, name: string) => {
    const home = join(folder, `template-${template}`)
    copyInstalled(home)
    const bin = join(home, 'node_modules/reprise/dist/cli/bin.cjs')
    const args = ['init', '--template', template, '--name', name, '--yes', '--language', 'js']
    expect(run(process.execPath, [bin, ...args], home).code).toBe(0)
    return { home, bin }
  }

  it('a pipeline that is killed after its first results counts each record once', async () => {
    const { home, bin } = made('pipeline', 'readings')
    const results = () => {
      const place = join(home, 'readings-counts')
      const names = existsSync(place) ? readdirSync(place).filter((name) => name.endsWith('.jsonl')) : []
      return names.flatMap((name) => linesOf(join(place, name)))
    }
    await killOnce([bin, 'run', 'readings.mjs'], home, () => results().length > 0)
    expect(results().length).toBeLessThan(9)
    const resumed = run(process.execPath, [bin, 'run', 'readings.mjs'], home)
    expect(resumed.code, resumed.stderr).toBe(0)
    const counts = results().map((line) => JSON.parse(line) as { key: string; start: number; value: number })
    expect(counts.reduce((sum, { value }) => sum + value, 0)).toBe(300)
    expect(new Set(counts.map(({ key, start }) => `${key} ${start}`)).size).toBe(9)
    expect(counts.length).toBe(9)
  }, 300_000)

  it('an agent that is killed after its tool was called continues the turn, with the same key', async () => {
    const { home } = made('agent', 'support')
    const bank = join(home, 'bank.txt')
    await killOnce(['chat-support.mjs'], home, () => linesOf(bank).length > 0)
    const resumed = run(process.execPath, ['chat-support.mjs'], home)
    expect([resumed.code, resumed.stdout]).toEqual([0, 'Your money is on its way.\n'])
    expect(new Set(linesOf(bank)).size).toBe(1)
    expect(linesOf(bank).length).toBeLessThan(3)
  }, 300_000)
})

it('a Node that is too old gets one sentence, exit code 9', () => {
  const node = process.env.REPRISE_OLD_NODE
  const bin = join(root, 'dist/cli/bin.cjs')
  const env = node ? {} : { REPRISE_TEST_NODE_VERSION: '16.20.2' }
  const ran = run(node ?? process.execPath, [bin, 'demo'], folder, env as Record<string, string>)
  expect(ran.code).toBe(9)
  expect(ran.stderr.trim()).toMatch(/^Reprise needs Node 20\.19\.0 or newer, and this is .*$/)
})

it('the launcher is written so that old Nodes can read it', () => {
  const text = readFileSync(join(root, 'dist/cli/bin.cjs'), 'utf8')
  for (const modern of [/\?\?/, /\?\./, /\bimport\(/, /\basync\b/, /#\w+ ?[=(]/]) expect(text).not.toMatch(modern)
})
