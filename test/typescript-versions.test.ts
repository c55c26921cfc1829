// The types of the package with the least TypeScript that it states: all entries and all examples of the API compile. npm
// brings that version; offline the test is left out, with the reason.

import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const { peerDependencies, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  peerDependencies: Record<string, string>
  exports: Record<string, { types?: string }>
}
const least = peerDependencies.typescript!.replace('>=', '')
const folder = mkdtempSync(join(tmpdir(), 'reprise-typescript-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The compiler of that version; null where npm brings none. */
function compilerOf(version: string): string | null {
  const home = join(tmpdir(), `reprise-typescript-${version}`)
  const compiler = join(home, 'node_modules/typescript/bin/tsc')
  if (!existsSync(compiler)) {
    mkdirSync(home, { recursive: true })
    writeFileSync(join(home, 'package.json'), '{"private":true}')
    const options = ['--no-audit', '--no-fund', '--loglevel=error']
    const ran = spawnSync('npm', ['install', `typescript@${version}`, ...options], { cwd: home, encoding: 'utf8' })
    if (!existsSync(compiler)) console.warn(`TypeScript ${version} is left out: ${ran.stderr?.split('\n')[0]}`)
  }
  return existsSync(compiler) ? compiler : null
}

it('is stated where people look', () => {
  expect(least).toMatch(/^\d+\.\d+$/)
  expect(readFileSync(join(root, 'README.md'), 'utf8')).toContain(`TypeScript ${least}`)
})

it.each([least])('TypeScript %s compiles every entry and every example of the API', (version) => {
  const compiler = compilerOf(version)
  if (!compiler) return
  const project = join(folder, version)
  cpSync(join(root, 'examples/api'), project, { recursive: true })
  mkdirSync(join(project, 'node_modules'))
  symlinkSync(root, join(project, 'node_modules/reprise'))
  symlinkSync(join(root, 'node_modules/@types'), join(project, 'node_modules/@types'))
  symlinkSync(join(root, 'node_modules/zod'), join(project, 'node_modules/zod'))
  // Adapters are compiled where their frameworks are: those have needs of their own.
  const frameworks = [
    'ai-sdk',
    'langgraph',
    'openai-agents',
    'kubernetes',
    'kafka',
    'nats',
    'postgres-cdc',
    's3',
    'otel',
  ]
  for (const name of frameworks) rmSync(join(project, `${name}.ts`), { force: true })
  const entries = Object.entries(exports).flatMap(([path, { types }]) => (types ? path.slice(2) : []))
  const own = entries.filter((name) => !frameworks.includes(name))
  const imports = own.map((name, i) => `export * as e${i} from 'reprise${name === '' ? '' : `/${name}`}'\n`).join('')
  writeFileSync(join(project, 'entries.ts'), imports)
  writeFileSync(join(project, 'package.json'), '{"type":"module"}')
  const compilerOptions = {
    ...{ module: 'nodenext', moduleResolution: 'nodenext', target: 'es2022', lib: ['es2023', 'esnext.disposable'] },
    ...{ strict: true, noEmit: true, types: ['node'], allowImportingTsExtensions: true },
  }
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
  const { stdout } = spawnSync(process.execPath, [compiler, '-p', project], { encoding: 'utf8' })
  expect(stdout).toBe('')
})
