// The user's own module: errors in it are reported with file and line, TypeScript is found as the compiler finds it, and its
// output never mixes with the JSON.

import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { templates } from '../../src/cli/templates.ts'
import { cli, workFolder } from './support.ts'

const require = createRequire(import.meta.url)
const folder = workFolder()
const at = { cwd: folder.path }
afterAll(() => folder.remove())
symlinkSync(dirname(require.resolve('esbuild/package.json')), join(folder.path, 'node_modules/esbuild'), 'dir')
const write = (name: string, text: string) => writeFileSync(join(folder.path, name), text)

async function troubleOf(args: readonly string[]) {
  const ran = await cli([...args, '--json'], at)
  const { error } = JSON.parse(ran.stdout) as { error: { code: string; message: string; data: { at?: string } } }
  return { ...error, stderr: ran.stderr, exit: ran.code }
}

it('two definitions of one name are refused, the same one exported twice is not', async () => {
  const named = (by: number) => `job('one', { source: [${by}], each: () => undefined })`
  write('one.mjs', `import { job } from 'reprise/job'\nexport const a = ${named(1)}\n`)
  write('twice.mjs', `import { job } from 'reprise/job'\nexport const a = ${named(1)}\nexport const b = ${named(2)}\n`)
  write(
    'same.mjs',
    `import { job } from 'reprise/job'\nexport const a = ${named(1)}\nexport { a as b }\nexport default a\n`,
  )
  const same = await cli(['run', 'one.mjs', '--report', 'none'], at)
  expect([same.code, same.stderr]).toEqual([0, expect.any(String)])
  expect(await troubleOf(['drill', '--module', 'twice.mjs'])).toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining('two definitions of the job one'),
  })
  expect((await cli(['drill', '--module', 'same.mjs'], at)).code).toBe(0)
  expect(await troubleOf(['import', folder.path])).toMatchObject({ message: expect.stringContaining('is a folder') })
})

describe('a mistake in the module', () => {
  write('parse.mjs', 'export const a = 1\nexport const b = {\n')
  write('outer.mjs', "import './parse.mjs'\n")
  write('named.mjs', "import { nope } from './fine.mjs'\n")
  write('fine.mjs', 'export const fine = 1\n')
  write('throws.mjs', "export const a = 1\nthrow new Error('boom')\n")
  write('typed.ts', 'const a: number = 1\nconst b: = 2\n')
  write('typed-outer.ts', "import './parse.mjs'\nexport const a: number = 1\n")
  write('defined.mjs', "import { job } from 'reprise/job'\n\nexport const work = job('no name', { source: [] })\n")
  write(
    'step.mjs',
    "import { workflow } from 'reprise/workflow'\nexport const w = workflow('w', (ctx) => {\n  throw new TypeError('bad luck')\n})\n",
  )

  it.each([
    ['parse.mjs', /^parse\.mjs:[23]$/],
    ['outer.mjs', /^parse\.mjs:[23]$/],
    ['named.mjs', /^named\.mjs:1$/],
    ['throws.mjs', /^throws\.mjs:2:7$/],
    ['typed.ts', /^typed\.ts:2:\d+$/],
    ['typed-outer.ts', /^parse\.mjs:[23]$/],
    ['defined.mjs', /^defined\.mjs:3:\d+$/],
  ])('%s is told with its file and line', async (file, place) => {
    const trouble = await troubleOf(['run', file])
    expect(trouble.data.at).toMatch(place)
    expect(trouble.stderr).toContain(`at   ${trouble.data.at}`)
    expect((await troubleOf(['work', file])).data.at).toBe(trouble.data.at)
  })

  it("a place of our own is never shown as the user's", async () => {
    expect((await troubleOf(['show', 'nothing'])).data.at).toBeUndefined()
    expect((await troubleOf(['run', 'not-there.mjs'])).data.at).toBeUndefined()
  })
})

describe('TypeScript', () => {
  it('finds x.ts for ./x.js, in run and in check, and the .js where there is one', async () => {
    mkdirSync(join(folder.path, 'typed'), { recursive: true })
    write('typed/names.ts', "export const name: string = 'typed'\n")
    write('typed/both.ts', "export const both: string = 'the source'\n")
    write('typed/both.js', "export const both = 'the output'\n")
    write('typed/deep.mts', "export { name } from './names.js'\n")
    write(
      'typed/main.ts',
      `import { workflow } from 'reprise/workflow'
import { both } from './both.js'
import { name } from './deep.mjs'
export const greet = workflow(name, async (ctx, who: string) => await ctx.step('say', () => \`\${both} \${who}\`))
`,
    )
    const ran = await cli(['run', 'typed/main.ts', '--input', '"ann"', '--json'], at)
    expect(ran.stderr.replace(/^[0-9a-z]+$/m, '').trim()).toBe('')
    expect(JSON.parse(ran.stdout)).toMatchObject({ result: 'the output ann' })
    const checked = await cli(['check', 'typed/main.ts', '--ended', '--json'], at)
    expect(JSON.parse(checked.stdout)).toMatchObject({ ok: true, checked: 1 })
  })

  it('names the missing file where there is neither', async () => {
    write('lacks.ts', "import './nowhere.js'\n")
    expect((await troubleOf(['run', 'lacks.ts'])).message).toContain('nowhere.js')
  })

  it.each(templates.filter(({ runsWith }) => !runsWith).map(({ name }) => name))(
    'the %s template runs',
    async (name) => {
      const made = await cli(['init', `ts-${name}`, '--template', name, '--language', 'ts', '--yes', '--json'], at)
      const { next } = JSON.parse(made.stdout) as { next: string }
      const ran = await cli(next.replace(/^npx /, '').split(' ').slice(1), at)
      expect([ran.code, ran.stderr.includes('ERROR')]).toEqual([0, false])
    },
  )
})

describe('the output of the module', () => {
  it('goes to stderr with --json, in run and in check, and to stdout as ever without', async () => {
    write(
      'loud.mjs',
      `import { workflow } from 'reprise/workflow'
console.log('loading')
export const loud = workflow('loud', async (ctx) => {
  console.log('replaying')
  await ctx.step('one', () => process.stdout.write('stepping\\n'))
  return 1
})
`,
    )
    const ran = await cli(['run', 'loud.mjs', '--json'], at)
    expect(JSON.parse(ran.stdout)).toMatchObject({ result: 1 })
    expect(ran.stderr).toMatch(/loading.*replaying.*stepping/s)
    const checked = await cli(['check', 'loud.mjs', '--ended', '--json'], at)
    expect(JSON.parse(checked.stdout)).toMatchObject({ ok: true })
    expect(checked.stderr).toContain('replaying')
    expect((await cli(['run', 'loud.mjs'], at)).stdout).toContain('stepping')
  })
})
