// Users can reach only the exported types, and none of the engine's internals is among them.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { PublicTypes } from '../scripts/public-types.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  exports: Record<string, { types?: string }>
}
const entries = Object.entries(exports).flatMap(([path, { types }]) =>
  types ? [[`reprise${path.slice(1)}`, join(root, types)] as const] : [],
)
const types = new PublicTypes()
const main = new Set(
  ['index', 'model', 'store', 'tools'].flatMap((name) => [...types.exportsOf(join(root, `dist/${name}.d.ts`)).keys()]),
)
const anywhere = new Set(entries.flatMap(([, file]) => [...types.exportsOf(file).keys()]))

const inside = [
  ...['Kernel', 'Host', 'Dispatcher', 'Committer', 'Holdings', 'Sealer', 'Worker', 'Commit', 'Planted', 'Models'],
]
/** The port for authors of a store defines a commit; src/core/store/ports.ts is its contract. */
const leaves = new Set(['Store'])

it.each(entries)('%s names no type of the inside of the engine', (_, file) => {
  const found = types.reachedFrom(file, leaves).filter(({ name }) => inside.includes(name))
  expect(found.map(({ name, by }) => `${by.join(' > ')} > ${name}`)).toEqual([])
  const exported = [...types.exportsOf(file).keys()].map((each) => each.split(' ')[1]!)
  expect(exported.filter((name) => inside.includes(name))).toEqual([])
})

it.each(entries)('%s exports every type that its users come across, or an entry of the kernel does', (entry, file) => {
  // The tested values belong to other entries.
  const known = entry === 'reprise/testing' ? anywhere : main
  const missing = types.reachedFrom(file, leaves).filter((each) => !known.has(`${each.file} ${each.name}`))
  expect(missing.map(({ name, by }) => `${by.join(' > ')} > ${name}`)).toEqual([])
})

it('no name has two meanings in two entries', () => {
  const homes = new Map<string, Map<string, string[]>>()
  for (const [entry, file] of entries) {
    for (const [name, { home }] of types.namesOf(file)) {
      const known = homes.get(name) ?? new Map<string, string[]>()
      homes.set(name, known.set(home, [...(known.get(home) ?? []), entry]))
    }
  }
  const twice = [...homes].filter(([, known]) => known.size > 1)
  expect(twice.map(([name, known]) => `${name}: ${[...known.values()].join(' and ')}`)).toEqual([])
})

it('no public constructor takes a type that no entry exports', () => {
  const found = entries.flatMap(([entry, file]) =>
    types
      .constructedFrom(file)
      .flatMap(({ name, takes }) => takes.filter((type) => !anywhere.has(type)).map((type) => [entry, name, type])),
  )
  expect(found.map(([entry, name, type]) => `${entry} ${name} takes ${type!.split(' ')[1]}`)).toEqual([])
})

it('the root entry stays small: about 120 names', () => {
  expect(types.exportsOf(join(root, 'dist/index.d.ts')).size).toBeLessThanOrEqual(125)
})

it('sees reachable code, and nothing else', () => {
  const folder = mkdtempSync(join(tmpdir(), 'types-'))
  try {
    writeFileSync(
      join(folder, 'a.d.ts'),
      "import type { Deep, Unseen } from './b.js';\nexport declare class Shown {\n    #private;\n    constructor(a: Unseen);\n    read(): Promise<Deep>;\n}\n",
    )
    writeFileSync(
      join(folder, 'b.d.ts'),
      'export interface Deep {\n    readonly next: Deeper;\n}\nexport interface Unseen {\n}\ninterface Deeper {\n}\nexport {};\n',
    )
    writeFileSync(join(folder, 'index.d.ts'), "export type { Shown } from './a.js';\n")
    const names = (file: string) => new PublicTypes().reachedFrom(join(folder, file)).map(({ name }) => name)
    expect(names('index.d.ts')).toEqual(['Deep', 'Deeper'])
    expect(names('a.d.ts')).toEqual(['Unseen', 'Deep', 'Deeper'])
  } finally {
    rmSync(folder, { recursive: true })
  }
})
