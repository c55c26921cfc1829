// Code that the command line prints runs unchanged: every template of init, every snippet of advise.

import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { advices, advise } from '../../src/cli/advice.ts'
import type { Answers } from '../../src/cli/advice-shape.ts'
import { policyFor, vectorFor } from '../../src/cli/advice-vector.ts'
import { templates } from '../../src/cli/templates.ts'
import { cli, workFolder } from './support.ts'

const folder = workFolder()
afterAll(() => folder.remove())

describe('advice', () => {
  const about = [
    ...(['anything', 'items', 'changes', 'entities', 'records', 'conversation', 'stream', 'results', 'files'] as const),
    ...(['desired', 'settings', 'program'] as const),
  ]
  const common = { budget: '2s', loss: '1m', cost: 'least', retention: 'all', effects: true } as const
  const every: Answers[] = (['history', 'state', 'external'] as const).flatMap((truth) =>
    (['progress', 'state', 'both', 'execution'] as const).flatMap((captures) =>
      (['one', 'machine', 'many'] as const).flatMap((scope) =>
        about.map((what) => ({ truth, captures, scope, about: what, ...common })),
      ),
    ),
  )

  it('names every model that the package has', () => {
    const code = advices.map((advice) => advice.code).join('\n')
    // Those that users import: artifacts are reached through the server.
    const { exports } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
    const layers = readdirSync(new URL('../../src/layers', import.meta.url))
    const models = layers.filter((layer) => Object.hasOwn(exports, `./${layer}`))
    // The last two are one entry, resources.
    expect(layers.filter((layer) => !models.includes(layer))).toEqual(['artifact', 'config', 'resource'])
    for (const model of models) expect(code).toContain(`from 'reprise/${model}'`)
    for (const call of [
      'stateStore(',
      'table(',
      'aggregate(',
      'projection(',
      'save(',
      'agent(',
      'timeline(',
      'migrations(',
      'upload(',
      'resource(',
      'config(',
    ]) {
      expect(code).toContain(call)
    }
  })

  it('D5: has an answer for every combination, and every row of the table answers some', () => {
    const ids = new Set(every.map((answers) => advise(answers).id))
    expect([...ids].sort()).toEqual(advices.map((advice) => advice.id).sort())
    for (const answers of every) expect(advise(answers).watch.length).toBeGreaterThan(1)
  })

  it('D5: has the five axes, and a policy that keeps what was asked for', () => {
    for (const answers of every) {
      expect(Object.keys(vectorFor(answers))).toEqual(['authority', 'captured', 'scope', 'economics', 'replay'])
    }
    const [some] = every
    expect(policyFor(some!)).toEqual({
      checkpoint: { recoverWithin: '2s', loseAtMost: '1m' },
      retain: { checkpoints: 3, history: 'all' },
    })
    expect(policyFor({ ...some!, loss: 'any', cost: 'fast', retention: '30d' })).toEqual({
      checkpoint: { recoverWithin: '2s', every: 100 },
      retain: { checkpoints: 3, history: { for: '30d' } },
    })
    expect(() => policyFor({ ...some!, retention: 'zz' })).toThrow(/--retention/)
    expect(() => policyFor({ ...some!, loss: 'zz' })).toThrow(/loseAtMost/)
  })

  it('D5: measures the advised policy and its alternatives', async () => {
    const { stdout } = await cli(['advise', '--measure', '--cost', 'fast', '--json'], { cwd: folder.path })
    const { costs } = JSON.parse(stdout)
    expect(costs).toHaveLength(4)
    const [advised, none, , every100] = costs
    expect(none.checkpoints).toBe(0)
    expect(advised.checkpoints).toBeGreaterThan(0)
    expect(every100.checkpoints).toBeGreaterThan(0)
    for (const { msPerEntry, bytesPerEntry, recoveryMs } of costs) {
      expect([msPerEntry, bytesPerEntry, recoveryMs].every((figure) => figure > 0)).toBe(true)
    }
  })

  /** The effect that the code must have, according to its title. */
  const printed: Readonly<Record<string, readonly RegExp[]>> = {
    B7: [/picked A-1 shipped A-1/, /cut advised-/, /workflow\/advised-ship\/\S+@\d/, /workflow\/advised-pick\/\S+@\d/],
  }

  it.each(advices.map((advice) => [advice.id, advice.title] as const))('%s: the code for %s runs', (id) => {
    const answers = every.find((each) => advise(each).id === id)!
    const file = join(folder.path, `${id}.mjs`)
    writeFileSync(file, advise(answers).code)
    const ran = spawnSync(process.execPath, [file], { cwd: folder.path, encoding: 'utf8', timeout: 120_000 })
    expect(ran.stderr).toBe('')
    expect(ran.status).toBe(0)
    expect(ran.stdout.trim()).not.toBe('')
    for (const text of printed[id] ?? []) expect(ran.stdout).toMatch(text)
  })
})

describe('templates', () => {
  it.each(templates.map((template) => template.name))('%s runs as it is written', async (name) => {
    const made = await cli(['init', name, '--template', name, '--yes', '--language', 'js', '--json'], {
      cwd: folder.path,
    })
    expect(made.code).toBe(0)
    const { next } = JSON.parse(made.stdout) as { next: string }
    const [program, ...rest] = next.replace(/^npx reprise/, 'reprise').split(' ')
    const ran =
      program === 'reprise'
        ? (await cli(rest, { cwd: folder.path })).code
        : spawnSync(program!, rest, { cwd: folder.path, encoding: 'utf8', timeout: 120_000 }).status
    expect([ran, program]).toEqual([0, ['timeline', 'agent'].includes(name) ? 'node' : 'reprise'])
    expect(
      (await cli(['init', name, '--template', name, '--yes', '--language', 'js'], { cwd: folder.path })).code,
    ).toBe(2)
  })

  it('TypeScript without a way to run it is reported clearly, with the remedy', async () => {
    const made = await cli(['init', 'typed', '--yes', '--language', 'ts'], { cwd: folder.path })
    expect(made.code).toBe(0)
    const ran = await cli(['run', 'typed/papers.ts', '--report', 'none'], { cwd: folder.path })
    const canRun = Boolean((process.features as { typescript?: unknown }).typescript)
    if (canRun) expect(ran.code).toBe(0)
    else expect(ran.stderr).toContain('npm install --save-dev tsx')
  })
})
