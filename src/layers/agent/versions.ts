// Versions of the user's part of a session's state. The version is part of the fold's version and of every entry with
// such data, so that neither is misread; a migration converts data of an older version to the current one, in both.

import { RepriseError } from '../../core/errors.ts'
import { refuseThenable } from '../../core/synchronous.ts'
import type { Entry } from '../../engine/history/history.ts'
import type { Fold } from '../../engine/model/definition.ts'
import type { Entries, SessionState } from './state.ts'

export interface DataVersions<Data> {
  readonly fold: Pick<Fold<SessionState<Data>>, 'version' | 'migrations' | 'migrationFor'>
  /** Converts an `edited` entry to the current version. */
  bringUp(entry: Entry): Entry
}

const layout = 'agent 1'

export function dataVersions<Data>(
  name: string,
  version: string,
  migrations?: Readonly<Record<string, (data: never) => Data>>,
): DataVersions<Data> {
  if (migrations && Object.hasOwn(migrations, version)) {
    const what = `agent ${name}: it must not have a migration from its own version ${version}`
    throw new RepriseError('INVALID_ARGUMENT', what, { name, version })
  }
  const states = Object.entries(migrations ?? {}).map(([from, run]) => [
    `${layout} ${from}`,
    (old: SessionState<never>): SessionState<Data> => ({ ...old, data: run(old.data) }),
  ])
  return {
    fold: {
      version: `${layout} ${version}`,
      migrations: migrations && Object.fromEntries(states),
      migrationFor: (from) =>
        `agent('${name}', { migrations: { ${JSON.stringify(from.slice(layout.length + 1))}: (data) => … } })`,
    },
    bringUp(entry) {
      const edit = entry.data as Entries['edited']
      const from = edit.of ?? '1'
      // Written before versions were recorded: without migrations, such data is treated as the current version.
      if (from === version || (edit.of === undefined && !migrations)) return entry
      const run = migrations && Object.hasOwn(migrations, from) ? migrations[from] : undefined
      if (run) {
        const data = run(edit.data as never)
        refuseThenable(
          data,
          `the migration of agent ${name} from version ${from}`,
          'compute the new data from the old alone',
        )
        return { ...entry, data: { data } }
      }
      const { timeline, seq } = entry
      const what = `${timeline}@${seq} holds data of version ${from}, and agent ${name} (version ${version}) has no migration from it`
      throw new RepriseError('MIGRATION_MISSING', what, { timeline, seq, from, to: version })
    },
  }
}
