// Workspaces: captured with a turn and restored with it, by the rules of .gitignore, which are checked against git itself.

import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { isMatchedBy, parsePatterns } from '../../src/engine/base/file-tree/patterns.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })
const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function makeFolder(files: Record<string, string> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-workspace-'))
  folders.push(folder)
  for (const [path, text] of Object.entries(files)) put(folder, path, text)
  return folder
}

function put(folder: string, path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}

const coder = agent('coder', { model: () => ({ content: 'done' }) })

describe('workspaces', () => {
  onEveryStore(
    'C11 files',
    (world) => {
      it('come back with the turn: contents, modes, links and deletions; ignored ones are left alone', async () => {
        const w = await world()
        const directory = makeFolder({
          '.gitignore': 'node_modules/\n*.log\n!keep.log\n',
          'src/a.ts': 'one',
          'src/b.ts': 'two',
          'run.sh': '#!/bin/sh',
          'keep.log': 'kept',
          'debug.log': 'noise',
          'node_modules/x/index.js': 'big',
        })
        chmodSync(join(directory, 'run.sh'), 0o755)
        symlinkSync('src/a.ts', join(directory, 'link'))
        const session = await (await w.engine()).open(coder, 'files')
        await session.turn('first', { workspace: { directory } })
        expect([...session.state.files.keys()]).toEqual([
          '.gitignore',
          'keep.log',
          'link',
          'run.sh',
          'src/a.ts',
          'src/b.ts',
        ])
        put(directory, 'src/a.ts', 'changed')
        put(directory, 'src/new.ts', 'new')
        rmSync(join(directory, 'src/b.ts'))
        chmodSync(join(directory, 'run.sh'), 0o644)
        put(directory, 'debug.log', 'more noise')
        await session.turn('second', { workspace: { directory } })
        await session.rollback({ to: 1 })
        const report = await session.restoreWorkspace({ directory })
        expect(report).toMatchObject({ written: ['run.sh', 'src/a.ts', 'src/b.ts'], removed: ['src/new.ts'] })
        expect(readFileSync(join(directory, 'src/a.ts'), 'utf8')).toBe('one')
        expect(readFileSync(join(directory, 'src/b.ts'), 'utf8')).toBe('two')
        expect(lstatSync(join(directory, 'run.sh')).mode & 0o777).toBe(0o755)
        expect(existsSync(join(directory, 'src/new.ts'))).toBe(false)
        expect(readFileSync(join(directory, 'debug.log'), 'utf8')).toBe('more noise')
        expect(existsSync(join(directory, 'node_modules/x/index.js'))).toBe(true)
        // A fresh place gets the same files.
        const elsewhere = makeFolder()
        await session.restoreWorkspace({ directory: elsewhere })
        expect(readFileSync(join(elsewhere, 'link'), 'utf8')).toBe('one')
      })

      it('are restored by the rollback itself, if it gets their location', async () => {
        const w = await world()
        const directory = makeFolder({ a: 'one' })
        const session = await (await w.engine()).open(coder, 'with-files')
        await session.turn('first', { workspace: { directory } })
        put(directory, 'a', 'two')
        put(directory, 'b', 'new')
        await session.turn('second', { workspace: { directory } })
        await session.rollback({ to: 1, workspace: { directory } })
        expect(readFileSync(join(directory, 'a'), 'utf8')).toBe('one')
        expect(existsSync(join(directory, 'b'))).toBe(false)
      })

      it('cost only what changed, and are refused above their bounds', async () => {
        const w = await world()
        const directory = makeFolder({ big: 'x'.repeat(100_000), small: 'y' })
        const session = await (await w.engine()).open(coder, 'bounded')
        expect((await session.captureWorkspace({ directory })).bytes).toBe(100_001)
        put(directory, 'small', 'z')
        expect(await session.captureWorkspace({ directory })).toMatchObject({ bytes: 1, written: ['small'] })
        put(directory, 'copy', 'x'.repeat(100_000))
        expect((await session.captureWorkspace({ directory })).bytes).toBe(0)
        await expect(session.captureWorkspace({ directory, fileBytesMax: 1000 })).rejects.toEqual(
          code('LIMIT_EXCEEDED'),
        )
        await expect(session.captureWorkspace({ directory, totalBytesMax: 1000 })).rejects.toEqual(
          code('LIMIT_EXCEEDED'),
        )
      })
    },
    ['memory', 'sqlite'],
  )

  it('C11 read .gitignore as git does', () => {
    const name = fc.constantFrom('a', 'b', 'ab', 'a.log', 'x.log', '.env')
    const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'))
    const pattern = fc.oneof(
      name,
      path,
      path.map((text) => `/${text}`),
      path.map((text) => `${text}/`),
      fc.constantFrom(
        '*.log',
        '!*.log',
        '**/a',
        'a/**',
        'a/**/b',
        '!a',
        '?',
        '[ab]',
        '[!a]',
        'a*',
        '# comment',
        '',
        '\\!a',
        '*',
        '!*/',
        '/*',
        'a/*',
        '[a-b]*',
        '[[:alpha:]]',
        '[]a]',
        '[a',
        'a\\',
        'a\\*',
        '*.l?g',
        '**/b/',
        '/**',
        '**',
        'a/**/**/b',
        '***',
        'a**b',
      ),
    )
    const hasGit = (() => {
      try {
        execFileSync('git', ['--version'])
        return true
      } catch {
        return false
      }
    })()
    if (!hasGit) return
    const folder = makeFolder()
    execFileSync('git', ['init', '-q', folder])
    fc.assert(
      fc.property(
        fc.array(pattern, { maxLength: 4 }),
        fc.uniqueArray(path, { minLength: 1, maxLength: 5 }),
        (patterns, paths) => {
          writeFileSync(join(folder, '.gitignore'), `${patterns.join('\n')}\n`)
          const rules = parsePatterns(patterns.join('\n'))
          const mine = paths.filter((each) => {
            const parts = each.split('/')
            // A folder that is ignored takes everything below it along.
            return parts.some(
              (_part, i) => isMatchedBy(rules, parts.slice(0, i + 1).join('/'), i < parts.length - 1) === true,
            )
          })
          const git = execFileSync('sh', ['-c', 'git check-ignore --no-index --stdin || true'], {
            cwd: folder,
            input: `${paths.join('\n')}\n`,
          })
          expect(mine.sort()).toEqual(String(git).split('\n').filter(Boolean).sort())
        },
      ),
      { numRuns: 150 },
    )
  })
})
