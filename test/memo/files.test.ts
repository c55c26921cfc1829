// Scans of declared files: which files are read again, and which are known without reading.

import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FileDigests } from '../../src/layers/memo/files.ts'
import { SeenFolders } from '../../src/layers/memo/seen-folders.ts'
import { temporaryFolder } from '../support/fixture.ts'

const folder = temporaryFolder('files')

const limits = { treeDepth: 10, treeNames: 100 }

/** Ten seconds from now: nothing was changed just before. */
const ahead = () => Date.now() + 10_000
const later = (root: string) => new FileDigests(root, limits, undefined, ahead)

/** The view of another process. */
async function reloaded(files: FileDigests, now = ahead): Promise<FileDigests> {
  const { briefs, details } = structuredClone(await files.seen.stored(files.root))
  return new FileDigests(files.root, limits, new SeenFolders(briefs, async () => details), now)
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false
}

function folders({ details }: Awaited<ReturnType<SeenFolders['stored']>>): Record<string, string[]> {
  return Object.fromEntries(details.map(([path, text]) => [path, text.split('\0').filter((_, i) => i % 3 === 0 && _)]))
}

describe('digests of files', () => {
  it('reads a file again only when it may have changed', async () => {
    const root = mkdtempSync(join(folder, 'tree-'))
    for (const name of ['a.txt', 'b.txt']) {
      writeFileSync(join(root, name), name)
      utimesSync(join(root, name), 1000, 1000)
    }
    const files = new FileDigests(root, limits)
    const first = await files.of(['*.txt'])
    expect(Object.keys(first)).toEqual(['a.txt', 'b.txt'])
    writeFileSync(join(root, 'a.txt'), 'A.txt')
    utimesSync(join(root, 'a.txt'), 1000, 1000)
    const second = await files.of(['*.txt'])
    expect([second['a.txt'] === first['a.txt'], second['b.txt'] === first['b.txt']]).toEqual([false, true])
    await expect(files.of(['../x'])).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(files.of(['/etc/passwd'])).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })

  it('reads no file that looks as it did, and each that looks otherwise, also in another process', async () => {
    const root = mkdtempSync(join(folder, 'seen-'))
    for (const path of ['a.txt', 'b.txt']) writeFileSync(join(root, path), path)
    const first = later(root)
    const files = await first.of(['*.txt'])
    expect([first.read, first.seen.hasNew]).toEqual([2, true])
    const second = await reloaded(first)
    const look = await second.look(['*.txt'])
    expect([await look.files(), second.read, second.seen.hasNew]).toEqual([files, 0, false])
    expect([await second.digestOf('a.txt'), second.read]).toEqual([files['a.txt'], 0])
    // Another selection of the same folder is another scan, and reads no file either.
    expect([await second.of(['a*']), second.read]).toEqual([{ 'a.txt': files['a.txt'] }, 0])
    chmodSync(join(root, 'a.txt'), 0o755)
    const third = await reloaded(second)
    expect((await third.of(['*.txt']))['a.txt']).toBe(files['a.txt']!.replace('f:', 'x:'))
    expect(third.read).toBe(1)
    // The replaced file has the same size and times, and is another file.
    const { mtime } = lstatSync(join(root, 'b.txt'))
    writeFileSync(join(root, 'new'), 'B.txt')
    utimesSync(join(root, 'new'), mtime, mtime)
    renameSync(join(root, 'new'), join(root, 'b.txt'))
    const fourth = await reloaded(third)
    expect((await fourth.of(['*.txt']))['b.txt']).not.toBe(files['b.txt'])
    expect(fourth.read).toBe(1)
  })

  it('B9: a file changed just before a look is read at the next one: it may have changed again, and look the same', async () => {
    const root = mkdtempSync(join(folder, 'racy-'))
    writeFileSync(join(root, 'a'), 'a')
    symlinkSync('a', join(root, 'link'))
    const first = new FileDigests(root, limits)
    await first.of(['**'])
    const second = await reloaded(first, Date.now)
    await second.of(['**'])
    expect([first.read, second.read]).toEqual([2, 2])
    // A clock that was set back: the file is from the future.
    const back = () => Date.now() - 3_600_000
    const third = new FileDigests(root, limits, undefined, back)
    await third.of(['**'])
    const fourth = await reloaded(third, back)
    await fourth.of(['**'])
    expect(fourth.read).toBe(2)
  })

  it('after any change of a tree, a scan with a cache equals a scan without one', async () => {
    const path = fc.constantFrom('a', 'b', 'd/a', 'd/b', 'd/e/a', 'd/e/b')
    const act = fc.oneof(
      fc.record({ do: fc.constant('write' as const), path }),
      fc.record({ do: fc.constant('replace' as const), path }),
      fc.record({ do: fc.constant('remove' as const), path }),
      fc.record({ do: fc.constant('chmod' as const), path }),
      fc.record({ do: fc.constant('link' as const), path, to: path }),
      fc.record({ do: fc.constant('look' as const), at: fc.nat(2), path }),
      fc.record({ do: fc.constant('restart' as const), path }),
    )
    const selections = [['**'], ['d/**', 'a', '!d/e/b'], ['**/a', 'none']]
    let size = 0
    await fc.assert(
      fc.asyncProperty(fc.array(act, { maxLength: 20 }), async (acts) => {
        const root = mkdtempSync(join(folder, 'model-'))
        mkdirSync(join(root, 'd/e'), { recursive: true })
        let known = later(root)
        for (const each of [...acts, { do: 'look' as const, at: 0, path: 'a' }]) {
          const whole = join(root, each.path)
          // Every content is longer than the earlier ones: within one tick of the clock only its size distinguishes it.
          const content = 'x'.repeat(++size)
          if (each.do === 'write' && !isLink(whole)) writeFileSync(whole, content)
          if (each.do === 'replace') {
            writeFileSync(join(root, 'd/.new'), content)
            renameSync(join(root, 'd/.new'), whole)
          }
          if (each.do === 'remove') rmSync(whole, { force: true })
          if (each.do === 'chmod' && existsSync(whole)) chmodSync(whole, size % 2 === 0 ? 0o755 : 0o644)
          if (each.do === 'link' && each.to !== each.path) {
            rmSync(whole, { force: true })
            symlinkSync(join(root, each.to), whole)
          }
          if (each.do === 'restart') known = await reloaded(known)
          if (each.do !== 'look') continue
          const patterns = selections[each.at]!
          const [look, anew] = [await known.look(patterns), await new FileDigests(root, limits).look(patterns)]
          expect([look.digest, look.signature]).toEqual([anew.digest, anew.signature])
          expect(await look.files()).toEqual(await anew.files())
          const { read } = known
          expect([await known.look(patterns).then(({ digest }) => digest), known.read]).toEqual([look.digest, read])
        }
        rmSync(root, { recursive: true })
      }),
      { numRuns: Number(process.env.REPRISE_RUNS ?? 60) },
    )
  })

  it('reads summarised files again, if the rest is unavailable', async () => {
    const root = mkdtempSync(join(folder, 'brief-'))
    for (const name of ['a', 'b']) writeFileSync(join(root, name), name)
    const first = later(root)
    const files = await first.of(['**'])
    const { briefs } = await first.seen.stored(root)
    const lost = new SeenFolders(briefs, () => Promise.reject(new Error('it is gone')))
    const second = new FileDigests(root, limits, lost, ahead)
    const look = await second.look(['**'])
    expect(second.read).toBe(0)
    expect([await look.files(), second.read]).toEqual([files, 2])
  })

  it('forgets files and folders that are gone', async () => {
    const root = mkdtempSync(join(folder, 'gone-'))
    mkdirSync(join(root, 'd'))
    for (const name of ['a', 'b', 'd/c']) writeFileSync(join(root, name), name)
    const first = later(root)
    await first.of(['**'])
    expect(folders(await first.seen.stored(root))).toEqual({ '': ['a', 'b'], d: ['c'] })
    for (const name of ['b', 'd']) rmSync(join(root, name), { recursive: true })
    expect(folders(await first.seen.stored(root))).toEqual({ '': ['a'] })
  })

  it('finds a file under any name that is also a property of records', async () => {
    const root = mkdtempSync(join(folder, 'names-'))
    const names = ['__proto__', 'constructor', 'toString']
    for (const name of names) writeFileSync(join(root, name), name)
    const files = new FileDigests(root, limits)
    const first = await files.of(['**'])
    expect(Object.keys(first)).toEqual(names)
    writeFileSync(join(root, '__proto__'), 'another')
    expect(Object.entries(await files.of(['**']))[0]).not.toEqual(Object.entries(first)[0])
  })

  it('takes whole folders, wildcards at any depth, and omits excluded files', async () => {
    const root = mkdtempSync(join(folder, 'deep-'))
    for (const path of ['src/x', 'node_modules/m', 'other']) mkdirSync(join(root, path), { recursive: true })
    for (const path of ['src/a.ts', 'src/x/b.ts', 'src/x/c.md', 'node_modules/m/i.ts', 'other/d.ts', 'e.ts']) {
      writeFileSync(join(root, path), path)
    }
    symlinkSync('/etc/passwd', join(root, 'src/link'))
    chmodSync(join(root, 'src/a.ts'), 0o755)
    const of = async (...patterns: string[]) => await new FileDigests(root, limits).of(patterns)
    expect(Object.keys(await of('**/*.ts')).sort()).toEqual(['e.ts', 'other/d.ts', 'src/a.ts', 'src/x/b.ts'])
    expect(Object.keys(await of('src/**', '!**/*.md')).sort()).toEqual(['src/a.ts', 'src/link', 'src/x/b.ts'])
    expect(Object.keys(await of('src')).sort()).toEqual(['src', 'src/a.ts', 'src/link', 'src/x/b.ts', 'src/x/c.md'])
    expect(Object.keys(await of('e.ts', 'none.ts'))).toEqual(['e.ts', 'none.ts'])
    expect((await of('src/*'))['src/a.ts']).toMatch(/^x:/)
  })
})
