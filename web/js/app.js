// Puts the page together.
import { startAbout } from "./about.js";
import { watchKeyForm } from "./api.js";
import { startChat } from "./chat.js";
import { byId } from "./dom.js";
import { startMonitor } from "./monitor.js";
import { startTabs, startTheme } from "./tabs.js";

startTabs();
startTheme();
watchKeyForm();
startChat();
startAbout();
startMonitor();
// On a wide screen the list of chats stands open beside the conversation.
byId("chats-box").open = window.matchMedia("(min-width: 64rem)").matches;
