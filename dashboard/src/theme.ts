// Light or dark: the person's choice. Default: the system's, also when it changes while the page is open.

const key = 'reprise-theme'
const system = matchMedia('(prefers-color-scheme: dark)')

function apply(): void {
  const chosen = localStorage.getItem(key)
  const isChosen = chosen === 'light' || chosen === 'dark'
  document.documentElement.dataset.theme = isChosen ? chosen : system.matches ? 'dark' : 'light'
}

export function startTheme(): void {
  system.addEventListener('change', apply)
  apply()
}

export function toggleTheme(): void {
  localStorage.setItem(key, document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark')
  apply()
}
