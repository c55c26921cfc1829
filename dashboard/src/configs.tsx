// Pushed configuration: the version of each configuration, the number of clients per version, refusals with their reasons,
// and the progress of a rollout. Also the kinds of resources, with their followers.

import { count } from './format.ts'
import { useGet } from './loading.ts'
import { Table } from './table.tsx'
import type { SearchAnswer } from './types.ts'
import { Status, Time, TimelineLink } from './ui.tsx'

interface ConfigStatus {
  readonly config: string
  readonly latest: number | null
  readonly rollout: { readonly version: number; readonly status: string; readonly share: number } | null
  readonly clients: number
  readonly inForce: readonly { readonly version: number | null; readonly clients: number }[]
  readonly refused: readonly Refusal[]
}

interface Refusal {
  readonly client: string
  readonly refused: { readonly version: number; readonly reason: string; readonly at: number } | null
}

export function Configs({ names }: { names: readonly string[] }) {
  return (
    <>
      {names.map((name) => (
        <Config key={name} name={name} />
      ))}
    </>
  )
}

function Config({ name }: { name: string }) {
  const { value } = useGet<ConfigStatus>(`v1/configs/${encodeURIComponent(name)}`)
  if (!value) return null
  const { latest, rollout, clients, inForce, refused } = value
  return (
    <div class="config">
      <p class="config-head">
        <TimelineLink id={`config/${name}`} /> {latest === null ? 'has no version yet' : `version ${latest}`}
        {rollout && (
          <>
            , rollout of {rollout.version} <Status status={rollout.status} />
            <span class="dim">{Math.round(100 * rollout.share)} % of the clients</span>
          </>
        )}
      </p>
      {clients > 0 && (
        <Table
          name={`Who has which version of ${name}`}
          heads={['In force', '>Clients', '>Share']}
          rows={inForce.map((each) => ({
            key: String(each.version),
            cells: [
              each.version === null ? 'none accepted yet' : `version ${each.version}`,
              count(each.clients),
              `${Math.round((100 * each.clients) / clients)} %`,
            ],
          }))}
        />
      )}
      {refused.length > 0 && (
        <Table
          name={`Who refused a version of ${name}`}
          heads={['Client', 'Refused', 'Why', '>When']}
          rows={refused.map(({ client, refused: what }) => ({
            key: client,
            cells: [client, what && `version ${what.version}`, what?.reason, what && <Time key="t" at={what.at} />],
          }))}
        />
      )}
    </div>
  )
}

export function Resources({ found }: { found: SearchAnswer }) {
  return (
    <Table
      name="Resources"
      heads={['Kind', 'Current state', '>Changed']}
      rows={found.timelines.map((each) => ({
        key: each.timeline,
        cells: [
          <TimelineLink key="r" id={each.timeline} />,
          each.statusLine?.text ?? '',
          <Time key="t" at={each.updatedAt} />,
        ],
      }))}
    />
  )
}
