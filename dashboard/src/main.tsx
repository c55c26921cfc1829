// The page: the person, the screen that the address names, and the frame around it.

import { effect, signal } from '@preact/signals'
import { options, render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { at, beginSession, get, getEarly, mayPass, type Problem, problemOf } from './api.ts'
import { visible } from './format.ts'
import { heardAt } from './heard.ts'
import { firstPage } from './history.ts'
import { useKeys } from './keys.ts'
import { isLive, now, startLive } from './live.ts'
import { againMs, useGet, usePaced } from './loading.ts'
import { isPaletteOpen, Palette } from './palette.tsx'
import { go, hrefIn, hrefOf, place } from './route.ts'
import { Runs, runsQuery } from './runs.tsx'
import { about, keepSession } from './session.ts'
import { StartDialog } from './start.tsx'
import { starting, startRun } from './starting.ts'
import { Storage } from './storage.tsx'
import { System } from './system.tsx'
import { startTheme, toggleTheme } from './theme.ts'
import { briefly, TimelineView } from './timeline.tsx'
import type { About, SearchAnswer } from './types.ts'
import { Dialog, Icon, Problems, Toasts } from './ui.tsx'

const problem = signal<Problem | null>(null)
/** Why a link or a token began no session. */
const refused = signal<Problem | null>(null)
const isHelpOpen = signal(false)

const tabs = [
  { name: 'Runs', path: 'runs', key: '1' },
  { name: 'Storage', path: 'storage', key: '2' },
  { name: 'System', path: 'system', key: '3' },
]

function Screen() {
  const [first = 'runs', id] = place.value.path
  if (first === 't' && id !== undefined) return <TimelineView key={id} id={id} />
  if (first === 'storage') return <Storage />
  if (first === 'system') return <System />
  return <Runs />
}

function LiveMark() {
  const heard = heardAt.value
  const seconds = heard === null ? null : Math.max(0, (now.value - heard) / 1000)
  const age = seconds === null ? '' : seconds < 1 ? 'as of now' : `as of ${Math.round(seconds)} s ago`
  return (
    <span class={`live ${isLive.value ? 'on' : 'off'}`} title={age}>
      <i aria-hidden="true" />
      {isLive.value ? 'live' : 'not connected'}
      {isLive.value && <span class="live-age"> · {age}</span>}
    </span>
  )
}

/** For a token that reaches several namespaces. */
function Namespaces() {
  const names = about.value?.namespaces ?? []
  if (names.length < 2) return null
  return (
    <label class="namespaces">
      <span>Namespace</span>
      <select
        value={place.value.namespace ?? names[0]}
        onChange={(event) => go(hrefIn(event.currentTarget.value, ['runs']))}
      >
        {names.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  )
}

function Frame() {
  const current = place.value.path[0] ?? 'runs'
  useKeys({
    '?': () => {
      isHelpOpen.value = true
    },
    n: () => startRun(),
    ...Object.fromEntries(tabs.map(({ key, path }) => [key, () => go(hrefOf([path]))])),
  })
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
        Skip to content
      </button>
      <header class="top">
        <a class="brand" href={hrefOf(['runs'])} aria-label="Reprise, to the runs">
          <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
            <rect width="32" height="32" rx="8" />
            <path d="M9 22V10m14 0v12l-9-6z" />
          </svg>
          <span>Reprise</span>
        </a>
        <nav aria-label="Screens">
          {tabs.map(({ name, path }) => (
            <a
              key={path}
              href={hrefOf([path])}
              aria-current={current === path || (path === 'runs' && current === 't') ? 'page' : undefined}
            >
              {name}
            </a>
          ))}
        </nav>
        <span class="grow" />
        <Tools />
      </header>
      <main id="main" tabIndex={-1}>
        {about.value ? <Screen key={place.value.namespace} /> : <Door />}
      </main>
      {isHelpOpen.value && <Help />}
      {isPaletteOpen.value && <Palette />}
      {about.value && <TitleNotice key={place.value.namespace} />}
      {starting.value && (
        <StartDialog
          name={starting.value.name}
          onClose={() => {
            starting.value = null
          }}
        />
      )}
      <Toasts />
    </>
  )
}

/** The right end of the top. */
function Tools() {
  return (
    <>
      <Namespaces />
      <LiveMark />
      {about.value && (
        <span class="who" title={about.value.scopes ? `reaches ${about.value.scopes.join(', ')}` : 'reaches all'}>
          {about.value.name} · {about.value.readOnly ? 'read-only' : about.value.role}
        </span>
      )}
      <button type="button" class="icon-button" aria-label="Light or dark" title="Light or dark" onClick={toggleTheme}>
        <Icon name="moon" />
      </button>
      <button
        type="button"
        class="icon-button"
        aria-label="Keyboard and help"
        title="Keyboard and help (?)"
        onClick={() => {
          isHelpOpen.value = true
        }}
      >
        <Icon name="help" />
      </button>
    </>
  )
}

const noticeMs = 5000
/** The screen is read first: the count reads every timeline of a server that has just started. */
const firstNoticeMs = 2000

/** The title of the tab names how much needs a person, also while another tab is looked at. */
function TitleNotice() {
  const [isDue, setDue] = useState(false)
  const { value, again } = useGet<SearchAnswer>(isDue ? 'v1/search' : null, { limit: 1 })
  useEffect(() => {
    const first = setTimeout(() => setDue(true), firstNoticeMs)
    return () => clearTimeout(first)
  }, [])
  usePaced(again, noticeMs)
  const attention = value?.attention ?? 0
  useEffect(() => {
    document.title = attention > 0 ? `(${attention}) Reprise` : 'Reprise'
  }, [attention])
  return null
}

/** Shown to a person who is not logged in. */
function Door() {
  const [token, setToken] = useState('')
  if (!problem.value) return <p class="loading">Loading…</p>
  if (problem.value.code !== 'UNAUTHENTICATED') return <Problems problem={problem.value} retry={() => void enter()} />
  return (
    <section class="door">
      <h1>This page needs a link</h1>
      <Problems problem={refused.value} />
      <p>
        A link admits one browser, once, within ten minutes. <code>reprise serve</code> prints a link on a terminal,{' '}
        <code>reprise serve --open</code> opens it, and <code>reprise link</code> prints another.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void login({ token: token.trim() })
        }}
      >
        <label>
          <span>Or paste a token</span>
          <input
            type="password"
            name="token"
            autocomplete="current-password"
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="button primary">
          Log in
        </button>
      </form>
    </section>
  )
}

const help: readonly (readonly [string, string])[] = [
  ['1 2 3', 'runs, storage, system'],
  ['/', 'search'],
  ['Ctrl-K', 'go to anything, or do it'],
  ['n', 'start a run'],
  ['j k', 'next and previous row'],
  ['Enter', 'open the row'],
  ['x', 'select a run, for doing something to many'],
  ['[ ]', 'one entry back and forth in time travel'],
  ['t', 'journal, time travel, checkpoints, raw: the next tab'],
  ['e', 'to the row that failed'],
  ['s r c f', 'signal, retry, cancel, fork the run'],
  ['Esc', 'back'],
  ['?', 'this'],
]

function Help() {
  return (
    <Dialog
      title="Keyboard"
      onClose={() => {
        isHelpOpen.value = false
      }}
    >
      <dl class="keys">
        {help.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              {keys.split(' ').map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p class="dim">
        Reprise {about.value?.version}. Everything here is in the API:{' '}
        <a href="v1/openapi.json" target="_blank" rel="noreferrer">
          openapi.json
        </a>
      </p>
    </Dialog>
  )
}

async function login(proof: Parameters<typeof beginSession>[0]): Promise<void> {
  try {
    await beginSession(proof)
    refused.value = null
  } catch (error) {
    refused.value = problemOf(error)
  }
  if ('code' in proof) go(hrefOf(['runs']), 'replace')
  await enter()
}

async function enter(): Promise<void> {
  const { namespace } = place.peek()
  try {
    const answer = await get<About>('v1')
    if (place.peek().namespace !== namespace) return
    about.value = answer
    problem.value = null
    startLive()
  } catch (error) {
    problem.value = problemOf(error)
    if (mayPass(problem.value)) setTimeout(() => void enter(), againMs)
    // The session is over, or a namespace that this token does not reach.
    else about.value = null
    if (problem.value.code === 'UNAUTHENTICATED') keepSession(null)
  }
}

/** Requests the data of the first screen in parallel with the caller's identity. */
function askEarly(): void {
  const { path, query } = place.peek()
  const [first = 'runs', id] = path
  if (first === 'runs') getEarly('v1/search', runsQuery(query))
  if (first !== 't' || id === undefined) return
  getEarly(at(id), briefly)
  getEarly(at(id))
  if ((query.get('tab') ?? 'journal') === 'journal') getEarly(at(id, 'history'), firstPage)
}

// Everything on the page that is text goes through here: no text can turn itself around or hide.
const { vnode: before } = options
options.vnode = (node) => {
  const text = node as unknown as { type: unknown; props: unknown }
  if (text.type === null && typeof text.props === 'string') text.props = visible(text.props)
  before?.(node)
}
startTheme()
let entered: string | null | undefined
effect(() => {
  const { namespace, path } = place.value
  if (path[0] === 'login') {
    entered = null
    void login({ code: path[1] ?? '' })
    return
  }
  if (namespace === entered) return
  entered = namespace
  void enter()
})
askEarly()
render(<Frame />, document.getElementById('app')!)
