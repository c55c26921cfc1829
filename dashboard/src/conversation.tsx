// Shows a state with messages (each with a role and content) as a conversation.

import { Json } from './json.tsx'
import { Chip } from './ui.tsx'

interface Message {
  readonly role: string
  readonly content: unknown
  readonly turn?: number
  readonly isError?: boolean
  readonly requests?: readonly { readonly tool?: string; readonly name?: string; readonly args?: unknown }[]
}

/** Detected by its form, not by its kind: null if it is not a conversation. */
export function messagesIn(state: unknown): readonly Message[] | null {
  const { messages } = (state ?? {}) as { messages?: unknown }
  if (typeof messages !== 'object' || messages === null) return null
  const found = Object.values(messages).filter(
    (each): each is Message => typeof each === 'object' && each !== null && typeof (each as Message).role === 'string',
  )
  return found.length > 0 ? found : null
}

export function Conversation({ messages }: { messages: readonly Message[] }) {
  return (
    <ol class="conversation">
      {messages.map((message, i) => (
        <li key={i} class={`message ${message.role}${message.isError ? ' error' : ''}`}>
          <span class="message-role">
            {message.role}
            {message.turn !== undefined && <span class="dim"> turn {message.turn}</span>}
          </span>
          <div>
            {typeof message.content === 'string' ? (
              <p>{message.content}</p>
            ) : (
              <Json value={message.content} depth={1} />
            )}
            {message.requests?.map((request, n) => (
              <div key={n}>
                <Chip>calls {request.tool ?? request.name}</Chip>
                <Json value={request.args ?? null} depth={1} />
              </div>
            ))}
          </div>
        </li>
      ))}
    </ol>
  )
}
