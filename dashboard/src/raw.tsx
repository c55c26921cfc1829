// Raw history: stored entries, newest first, to read, copy or export.

import { at, urlOf } from './api.ts'
import { exact, quoted } from './format.ts'
import { Json } from './json.tsx'
import { useGet } from './loading.ts'
import { place, withQuery } from './route.ts'
import type { Entry, HistoryPage, Timeline } from './types.ts'
import { CommandLine, Copy, Download, OpenJson, Problems } from './ui.tsx'

const pageEntries = 50

export function Raw({ timeline }: { timeline: Timeline }) {
  const { timeline: id, seq } = timeline
  const before = place.value.query.get('before')
  const query = { before: before ?? seq + 1, limit: pageEntries }
  const { value, problem, again } = useGet<HistoryPage<Entry>>(at(id, 'history'), query)
  return (
    <div class="raw">
      <div class="raw-head">
        <CommandLine command={`reprise export ${quoted(id)} history.jsonl`} />
        <OpenJson href={urlOf(at(id, 'history'), query)} />
        <Download href={urlOf(at(id, 'export'))} label="Export" />
      </div>
      <Problems problem={problem} retry={again} />
      <ol class="raw-list">
        {value?.entries.map((entry) => (
          <li key={entry.seq}>
            <div class="raw-line">
              <span class="seq">{entry.seq}</span>
              <b>{entry.type}</b>
              <span class="dim">{exact(entry.time)}</span>
              <span class="dim">epoch {entry.epoch}</span>
              {entry.key && <code class="dim">{entry.key}</code>}
              <Copy text={JSON.stringify(entry, null, 2)} label={`Copy entry ${entry.seq}`} />
            </div>
            {entry.data !== undefined && entry.data !== null && <Json value={entry.data} depth={1} />}
          </li>
        ))}
      </ol>
      <footer class="pages">
        {before !== null && <a href={withQuery({ before: null })}>Newest</a>}
        <span class="grow" />
        {value?.next != null && <a href={withQuery({ before: value.next })}>Older</a>}
      </footer>
    </div>
  )
}
