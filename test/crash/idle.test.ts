// G1, G3: a process is idle while others write to its file and free rows of the log. Its later acknowledged writes must be
// durable, and its outdated writes must be refused. Real processes; a new one checks the result.

import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { Connection } from '../../src/stores/sqlite/file/connection.ts'
import { loadDriver } from '../../src/stores/sqlite/file/driver.ts'
import { cli } from '../cli/support.ts'
import { Child, newFolder, removeFolder } from './support.ts'

interface Answer {
  readonly ok: boolean
  readonly value?: unknown
  readonly code?: string
}

class Idle {
  readonly #child: Child
  #answers = 0

  constructor(file: string) {
    this.#child = new Child('idle-process', file)
    processes.push(this)
  }

  async ask(...command: readonly unknown[]): Promise<Answer> {
    await this.#next()
    this.#child.tell(JSON.stringify(command))
    this.#answers += 1
    return await this.#next()
  }

  /** Fails where the process was refused. */
  async do(...command: readonly unknown[]): Promise<unknown> {
    const answer = await this.ask(...command)
    expect(answer, command.join(' ')).toMatchObject({ ok: true })
    return answer.value
  }

  async #next(): Promise<Answer> {
    await this.#child.until((child) => child.lines.length > this.#answers)
    if (this.#child.lines.length <= this.#answers) throw new Error(`the process ended: ${this.#child.errors}`)
    return JSON.parse(this.#child.lines[this.#answers]!) as Answer
  }

  kill(): Promise<void> {
    return this.#child.kill()
  }
}

const folder = newFolder()
let files = 0
const processes: Idle[] = []

afterEach(async () => {
  for (const each of processes.splice(0)) await each.kill()
})
afterAll(() => removeFolder(folder))

function newFile(): string {
  files += 1
  return `${folder}/${files}.db`
}

/** Rows of their own, most of them empty, and none of them needed. */
async function write(other: Idle): Promise<void> {
  for (const id of ['x', 'y', 'z']) await other.do('open', 'plain', id)
}

async function sql(file: string, ...statements: readonly string[]): Promise<void> {
  const connection = new Connection(await loadDriver(), file, false)
  try {
    for (const statement of statements) connection.exec(statement)
  } finally {
    connection.close()
  }
}

async function countRows(file: string): Promise<{ first: number; last: number }> {
  const connection = new Connection(await loadDriver(), file, true)
  try {
    return connection.get('SELECT min(position) AS first, max(position) AS last FROM reprise_log') as never
  } finally {
    connection.close()
  }
}

/** The events while the first process is idle. Each frees rows above the position that it has. */
const meanwhile: Readonly<Record<string, (other: Idle, file: string) => Promise<void>>> = {
  'a collection': async (other) => {
    await write(other)
    await other.do('collect')
  },
  'a tidying': async (other) => {
    await write(other)
    await other.do('tidy')
  },
  'reprise prune --yes': async (other, file) => {
    await write(other)
    const ran = await cli(['prune', '--yes', '--url', `sqlite:${file}`], { cwd: folder })
    expect(ran).toMatchObject({ code: 0 })
  },
  'a rollback': async (other) => {
    await write(other)
    await other.do('append', 'plain/x', 4)
    await other.do('rollback', 'plain/x', 2)
    await other.do('forget', 'plain/x')
    await other.do('collect')
  },
  'a timeline that is forgotten': async (other) => {
    await write(other)
    await other.do('append', 'plain/y', 4)
    await other.do('forget', 'plain/y')
    await other.do('collect')
  },
  'a floor that rises': async (other) => {
    await other.do('open', 'frugal', 'f')
    await other.do('append', 'frugal/f', 40)
    await other.do('close', 'frugal/f')
    await other.do('collect')
  },
  'a savepoint that is released': async (other) => {
    await other.do('open', 'frugal', 's')
    await other.do('append', 'frugal/s', 7)
    await other.do('savepoint', 'frugal/s')
    await other.do('append', 'frugal/s', 20)
    await other.do('collect')
  },
  'a collection and a VACUUM': async (other, file) => {
    await write(other)
    await other.do('collect')
    await sql(file, 'VACUUM')
  },
  'a collection by a process that is gone': async (other, file) => {
    await write(other)
    const third = new Idle(file)
    await third.do('collect')
    await other.kill()
    await third.kill()
  },
}

describe('a process that was idle', () => {
  for (const [name, happens] of Object.entries(meanwhile)) {
    it(`G1: gets acknowledgements for its entries after ${name}, and they are durable`, async () => {
      const file = newFile()
      const idle = new Idle(file)
      await idle.do('open', 'plain', 'a')
      const before = await countRows(file)
      await happens(new Idle(file), file)
      const after = await countRows(file)
      expect(after.first, 'rows above what the idle process knows were given back').toBeGreaterThan(before.last + 1)
      expect(await idle.do('append', 'plain/a', 3)).toBe(3)
      const look = await new Idle(file).do('look', 'plain/a')
      expect(look).toEqual({ seq: 3, epoch: 1, fed: 3, faults: [] })
    })
  }

  it('G1: continues for long, in turn with another that collects each time', async () => {
    const file = newFile()
    const [idle, other] = [new Idle(file), new Idle(file)]
    await idle.do('open', 'plain', 'a')
    for (let round = 1; round <= 8; round++) {
      for (const id of ['x', 'y', 'z']) await other.do('open', 'plain', `${id}-${round}`)
      await other.do('collect')
      expect(await idle.do('append', 'plain/a', 3)).toBe(3 * round)
    }
    const look = await new Idle(file).do('look', 'plain/a')
    expect(look).toEqual({ seq: 24, epoch: 1, fed: 24, faults: [] })
  })
})

describe('a process that was idle while others wrote its timeline', () => {
  const gone: Readonly<Record<string, { do: (other: Idle) => Promise<unknown>; code: string; seq: number | null }>> = {
    'a takeover': {
      do: async (other) => {
        await other.do('open', 'frugal', 'a', { takeover: true })
        await other.do('append', 'frugal/a', 30)
        await other.do('close', 'frugal/a')
      },
      code: 'FENCED',
      seq: 42,
    },
    'a takeover without an entry': {
      do: (other) => other.do('open', 'frugal', 'a', { takeover: true }),
      code: 'FENCED',
      seq: 12,
    },
    'a rollback': {
      do: async (other) => {
        await other.do('open', 'frugal', 'b')
        await other.do('rollback', 'frugal/a', 11)
      },
      code: 'FENCED',
      seq: 11,
    },
    'its end': { do: (other) => other.do('forget', 'frugal/a'), code: 'NOT_FOUND', seq: null },
  }
  for (const [name, { do: happens, code, seq }] of Object.entries(gone)) {
    it(`G3: is refused after ${name} with a collection behind it`, async () => {
      const file = newFile()
      const idle = new Idle(file)
      await idle.do('open', 'frugal', 'a')
      await idle.do('append', 'frugal/a', 12)
      const other = new Idle(file)
      await write(other)
      await happens(other)
      await write(other)
      await other.do('collect')
      expect(await idle.ask('append', 'frugal/a', 1)).toEqual({ ok: false, code })
      expect(await new Idle(file).do('look', 'frugal/a')).toMatchObject({ seq, faults: [] })
    })
  }

  it('G3: is refused after a takeover whose rows were all given back', async () => {
    const file = newFile()
    const idle = new Idle(file)
    await idle.do('open', 'plain', 'a')
    const other = new Idle(file)
    await other.do('open', 'plain', 'a', { takeover: true })
    await write(other)
    await other.do('collect')
    expect(await idle.ask('append', 'plain/a', 1)).toEqual({ ok: false, code: 'FENCED' })
    expect(await new Idle(file).do('look', 'plain/a')).toEqual({ seq: 0, epoch: 2, fed: 0, faults: [] })
  })

  it('is refused once a newer release has changed the tables, reading too', async () => {
    const file = newFile()
    const idle = new Idle(file)
    await idle.do('open', 'plain', 'a')
    await idle.do('append', 'plain/a', 1)
    await sql(file, `UPDATE reprise_meta SET value = 99 WHERE key IN ('schema_version', 'schema_copy')`)
    expect(await idle.ask('append', 'plain/a', 1)).toEqual({ ok: false, code: 'INCOMPATIBLE_VERSION' })
    expect(await idle.ask('open', 'plain', 'b')).toEqual({ ok: false, code: 'INCOMPATIBLE_VERSION' })
    expect(await idle.ask('look', 'plain/a')).toEqual({ ok: false, code: 'INCOMPATIBLE_VERSION' })
  })
})
