// The settings of the server, with their sources: explicit ones first, then defaults.

import { Table } from './table.tsx'

export interface Setting {
  readonly name: string
  readonly value: unknown
  readonly from: string
  readonly by?: string
}

const origins: Readonly<Record<string, string>> = {
  environment: 'environment variable',
  program: 'the program that opened the store',
  stored: 'stored with the store',
  declared: 'its definition',
  kind: 'the same for all of its kind',
  usual: 'the usual one of its kind',
}

export function Settings({ settings }: { settings: readonly Setting[] }) {
  const said = settings.filter(({ from }) => from !== 'default')
  const others = settings.filter(({ from }) => from === 'default')
  return (
    <Table
      name="Settings"
      heads={['Setting', 'Value', 'Where from']}
      rows={[...said, ...others].map(({ name, value, from, by }) => ({
        key: name,
        cells: [
          name,
          value === null ? <span class="dim">none</span> : <code>{shown(value)}</code>,
          <span key="f" class={from === 'default' ? 'dim' : ''}>
            {origins[from] ?? from}
            {by !== undefined && <span class="dim"> {by}</span>}
          </span>,
        ],
      }))}
    />
  )
}

function shown(value: unknown): string {
  return typeof value === 'string' && value !== '' ? value : JSON.stringify(value)
}
