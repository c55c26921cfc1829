// The types of the package with the oldest supported TypeScript: all entries and all examples of the API compile. npm installs
// that version; offline the test is skipped with the reason.

import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { temporaryFolder } from './support/fixture.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const { peerDependencies, exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  peerDependencies: Record<string, string>
  exports: Record<string, { types?: string }>
}
const least = peerDependencies.typescript!.replace('>=', '')
const folder = temporaryFolder('typescript')

const compilerOptions = {
  ...{ module: 'nodenext', moduleResolution: 'nodenext', target: 'es2022', lib: ['es2023', 'esnext.disposable'] },
  ...{ strict: true, noEmit: true, types: ['node'], allowImportingTsExtensions: true },
}

/** The compiler of that version; null where npm has none. */
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

function linkModules(project: string): void {
  mkdirSync(join(project, 'node_modules'), { recursive: true })
  symlinkSync(root, join(project, 'node_modules/reprise'))
  symlinkSync(join(root, 'node_modules/@types'), join(project, 'node_modules/@types'))
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
  linkModules(project)
  for (const name of ['zod', '@photostructure']) {
    symlinkSync(join(root, 'node_modules', name), join(project, 'node_modules', name))
  }
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
    'kysely',
    'drizzle',
  ]
  for (const name of frameworks) rmSync(join(project, `${name}.ts`), { force: true })
  const entries = Object.entries(exports).flatMap(([path, { types }]) => (types ? path.slice(2) : []))
  const own = entries.filter((name) => !frameworks.includes(name))
  const imports = own.map((name, i) => `export * as e${i} from 'reprise${name === '' ? '' : `/${name}`}'\n`).join('')
  writeFileSync(join(project, 'entries.ts'), imports)
  writeFileSync(join(project, 'package.json'), '{"type":"module"}')
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
  const { stdout } = spawnSync(process.execPath, [compiler, '-p', project], { encoding: 'utf8' })
  expect(stdout).toBe('')
})

it('errors of windows and joins name the cause: the option, the window or the missing keys', () => {
  const project = join(folder, 'mistakes')
  linkModules(project)
  const mistakes: readonly (readonly [code: string, message: string])[] = [
    ["keyed.window('w', every(5), { late: '1m' })", "'late' does not exist in type 'CountWindowOptions'"],
    ["keyed.window('w', tumbling('1m'), { latee: '1m' })", "Did you mean to write 'late'?"],
    ["keyed.window('w', '1m')", "'string' is not assignable to parameter of type"],
    [
      "keyed.joinLatest('j', orders, (order) => order)",
      "'Stream<Order>' is missing the following properties from type 'KeyedStream<Order>'",
    ],
    ["keyed.joinWindow('j', keyed, session('1m'), (order) => order)", "'SessionWindows' is missing"],
  ]
  const head = `import { every, generatedSource, pipeline, session, tumbling } from 'reprise/pipeline'
interface Order { readonly id: string }
export { every, session, tumbling }
pipeline('p', (p) => {
  const orders = p.from('orders', generatedSource((n): Order => ({ id: String(n) })), { time: ({ id }) => Number(id) })
  const keyed = orders.keyBy(({ id }) => id)
`
  writeFileSync(join(project, 'mistakes.ts'), `${head}${mistakes.map(([code]) => `  ${code}\n`).join('')}})\n`)
  writeFileSync(join(project, 'package.json'), '{"type":"module"}')
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  const { stdout } = spawnSync(process.execPath, [compiler, '-p', project, '--pretty', 'false'], { encoding: 'utf8' })
  const found = stdout.trim().split(/\n(?=\S)/)
  const first = head.split('\n').length
  expect(found.map((each) => Number(/\((\d+),/.exec(each)?.[1]))).toEqual(mistakes.map((_, i) => first + i))
  for (const [i, [, message]] of mistakes.entries()) expect(found[i]).toContain(message)
})
